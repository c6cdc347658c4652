"""Define the selective scan, token after token as in the paper (Mamba, arXiv 2312.00752, Algorithm 2)."""

import torch
from torch import Tensor


def selective_scan_reference(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence token after token."""
    h = x.new_zeros(x.shape[0], *A.shape) if state is None else state
    ys = []
    # unbind, not x[:, t]: the gradient of an index is a tensor as large as x, at every step
    for x_t, dt_t, B_t, C_t in zip(x.unbind(1), dt.unbind(1), B.unbind(1), C.unbind(1), strict=True):
        h = torch.exp(dt_t[..., None] * A) * h + (dt_t * x_t)[..., None] * B_t[:, None]
        ys.append((h * C_t[:, None]).sum(-1))
    return torch.stack(ys, dim=1), h
