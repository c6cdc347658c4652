"""In which precision the forms in torch compute."""

from typing import Any

import torch
from torch import Tensor


def wide(x: Any) -> Any:
    """A tensor of half precision in float32; all else as it is."""
    half = isinstance(x, Tensor) and x.dtype in (torch.bfloat16, torch.float16)
    return x.float() if half else x
