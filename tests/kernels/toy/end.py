"""Wrong where the length is no multiple of 8."""

import torch
from torch import Tensor


def toy_end(x: Tensor, weight: Tensor) -> Tensor:
    y = (x @ weight).sin()
    whole = y.shape[1] // 8 * 8
    return torch.cat([y[:, :whole], 0 * y[:, whole:]], 1)


def unfit(x: Tensor, weight: Tensor) -> str | None:
    del weight
    return None if x.ndim == 3 else "x must be [B T C]"
