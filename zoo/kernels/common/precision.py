"""Choose the precision that an op computes in."""

from typing import Any

import torch
from torch import Tensor


def wide(x: Any) -> Any:
    """Return a tensor of half precision in float32; all else unchanged."""
    half = isinstance(x, Tensor) and x.dtype in (torch.bfloat16, torch.float16)
    return x.float() if half else x


def narrowest(*factors: Tensor) -> list[Tensor]:
    """Return the factors of a product, all in the dtype of the narrowest one."""
    dtype = min((x.dtype for x in factors), key=lambda dtype: dtype.itemsize)
    return [x.to(dtype) for x in factors]


def autocast(x: Tensor) -> Tensor:
    """Return a tensor in the dtype of autocast, where that is on, as torch's own products take it."""
    kind = x.device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return x.to(torch.get_autocast_dtype(kind)) if on else x
