"""The delta rule with a diagonal-plus-low-rank transition: a decay per key channel and a rank-one term."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide
from zoo.kernels.dplr_delta_rule import native

OP = op(__name__, "reference", "native", "chunked", prepare=wide)


def dplr_delta_rule(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    a: Float[Tensor, "B H T K"],
    b: Float[Tensor, "B H T K"],
    log_decay: Float[Tensor, "B H T K"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """Update a matrix state by a diagonal decay plus a rank-one map, and read it; return y and the last S:
    S_t = diag(exp(log_decay_t)) S_{t-1} + b_t (a_t^T S_{t-1}) + k_t v_t^T,  y_t = q_t^T S_t.
    log_decay: at most 0.  state: S before the first token, None for zeros.
    All is computed in float32 at least, outside of any autocast.
    """
    inputs = (q, k, v, a, b, log_decay, state)
    of_many = "chunked" if native.unfit(*inputs) else "native"
    with torch.autocast(q.device.type, enabled=False):
        return OP.run("reference" if q.shape[-2] == 1 else of_many, *inputs)
