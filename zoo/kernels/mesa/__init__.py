"""The Mesa layer: ridge regression from the keys so far to their values, applied to each query."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide
from zoo.kernels.mesa.reference import State

OP = op(__name__, "reference", "solved", prepare=wide)


def mesa(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    beta: Float[Tensor, "B H T"],
    log_decay: Float[Tensor, "B H T"],
    ridge: Float[Tensor, "H K"],
    state: State | None = None,
) -> tuple[Float[Tensor, "B H T V"], State]:
    """Apply to each query the ridge regression of past values on keys; return y and (kk, kv) at the end:
    y_t = kv_t^T (kk_t + diag(ridge))^{-1} q_t, kk, kv the decayed sums of beta k k^T, beta k v^T.
    So y_t = W q_t for the W that minimises sum_j decay_tj beta_j |v_j - W k_j|^2 + the ridge's penalty (von
    Oswald et al. 2025, arXiv 2506.05233).  beta >= 0, log_decay <= 0, ridge > 0.
    All is computed in float32 at least, outside of any autocast.
    """
    usual = "reference" if q.shape[2] == 1 else "solved"
    with torch.autocast(q.device.type, enabled=False):
        return OP.run(usual, q, k, v, beta, log_decay, ridge, state)


__all__ = ["OP", "State", "mesa"]
