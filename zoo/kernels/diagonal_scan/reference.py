"""Define the diagonal real recurrence, step after step."""

import torch
from torch import Tensor


def diagonal_scan_reference(decay: Tensor, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute the recurrence step after step."""
    h = torch.zeros_like(x[..., 0, :]) if state is None else state
    hs = []
    for decay_t, x_t in zip(decay.unbind(-2), x.unbind(-2), strict=True):
        h = decay_t * h + x_t
        hs.append(h)
    return torch.stack(hs, dim=-2), h
