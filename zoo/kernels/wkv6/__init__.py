"""RWKV-5's and 6's gated linear attention, in which the present token has a weight of its own (bonus)."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide

OP = op(__name__, "reference", "chunked", prepare=wide)


def wkv6(
    r: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T K"],
    bonus: Float[Tensor, "H K"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """Compute gated linear attention with a bonus on the present token; return y and the last S:
    y_t = (S_{t-1} + diag(bonus) k_t v_t^T)^T r_t,
    S_t = diag(exp(log_decay_t)) S_{t-1} + k_t v_t^T.
    log_decay: at most 0.  state: S before the first token, None for zeros.
    Both are computed in float32 at least, outside of any autocast.
    """
    usual = "reference" if r.shape[-2] == 1 else "chunked"
    with torch.autocast(r.device.type, enabled=False):
        return OP.run(usual, r, k, v, log_decay, bonus, state)
