"""Gated linear attention with a state for each power-of-two segment of the past, weighted by the token."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide

OP = op(__name__, "reference", "chunked", prepare=wide)


def log_linear_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"],
    scales: Float[Tensor, "B H T L"],
    state: Float[Tensor, "B S H K V"] | None = None,
    offset: int = 0,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B S H K V"]]:
    """Return y_t = sum over j <= t of scales_t[level(t, j)] exp(sum of log_decay over (j, t]) (q_t k_j) v_j.

    level(t, j): 0 for j = t.  The t tokens before t are cut into powers of two by the bits of t, the largest
    first; those in the piece of 2^b have level b + 1.  (Guo et al. 2025, arXiv 2506.04761, Section 3.)
    state: one S for each piece of the `offset` tokens before q (each digit 1 of `offset`), smallest first.
    log_decay <= 0.  L must be more than the binary digits of the largest t.
    Returns y and the state, both computed in float32 at least, outside of any autocast.
    """
    usual = "reference" if q.shape[2] == 1 else "chunked"
    with torch.autocast(q.device.type, enabled=False):
        return OP.run(usual, q, k, v, log_decay, scales, state, offset)
