"""The diagonal real recurrence, step after step."""

import torch
from jaxtyping import Float
from torch import Tensor


def diagonal_scan_reference(
    decay: Float[Tensor, "... T D"], x: Float[Tensor, "... T D"], state: Float[Tensor, "... D"] | None = None
) -> tuple[Float[Tensor, "... T D"], Float[Tensor, "... D"]]:
    """h_t = decay_t h_{t-1} + x_t.  Returns all h and the last one."""
    h = torch.zeros_like(x[..., 0, :]) if state is None else state
    hs = []
    for decay_t, x_t in zip(decay.unbind(-2), x.unbind(-2), strict=True):
        h = decay_t * h + x_t
        hs.append(h)
    return torch.stack(hs, dim=-2), h
