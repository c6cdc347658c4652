"""Checks and arguments that all our Triton kernels share."""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.available import interpreted


def unfit_here(x: Tensor) -> str | None:
    """Return why Triton cannot launch on this tensor, None: it can."""
    if x.device.type == "cuda" or interpreted():
        return None
    return f"Triton runs on a CUDA device, and the tensors are on {x.device.type}"


def launch_options(num_warps: int, num_stages: int) -> dict[str, int | bool]:
    """Return options of a launch.  enable_fp_fusion: a product and a sum in one rounding; said, because
    Triton's default is to change.
    """
    return {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True}


def strided(*xs: Tensor | None, dims: int = 3) -> tuple[Any, ...]:
    """Return tensors as kernels take them: each with the strides of its first dimensions; what is not there,
    with zeros.
    """
    absent = (None, *[0] * dims)
    return tuple(word for x in xs for word in (absent if x is None else (x, *x.stride()[:dims])))


def by_time(x: Float[Tensor, "B H T C"], size: int | None = None) -> Float[Tensor, "B H T {size}"]:
    """Return an empty tensor with the heads of a token side by side in memory: what comes before and after
    has them so.

    size: of its last dimension, where that is not C.
    """
    batch, heads, length, channels = x.shape
    return x.new_empty(batch, length, heads, channels if size is None else size).transpose(1, 2)
