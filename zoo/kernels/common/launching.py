"""Checks and arguments that all our Triton kernels share."""

from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.available import interpreted


class Blocks(NamedTuple):
    """The tile sizes of one program: it keeps its `rows`, and loops over the rest `cols` at a time."""

    rows: int
    cols: int
    num_warps: int
    num_stages: int


def mixed(x: Tensor, *others: Tensor, dtypes: Collection[torch.dtype]) -> str | None:
    """Return why q, k and v do not all have the same one of these dtypes; None: they have."""
    kinds = [y.dtype for y in (x, *others)]
    if len(set(kinds)) == 1 and x.dtype in dtypes:
        return None
    return f"q, k and v must all be float32 or bfloat16, and are {', '.join(map(str, kinds))}"


def unfit_here(x: Tensor) -> str | None:
    """Return why Triton cannot launch on this tensor; None: it can."""
    if x.device.type == "cuda" or interpreted():
        return None
    return f"Triton runs on a CUDA device, and the tensors are on {x.device.type}"


def launch_options(num_warps: int, num_stages: int) -> dict[str, int | bool]:
    """Return launch options; a product and a sum are rounded once, whatever Triton's default is."""
    return {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True}


def strided(*xs: Tensor | None, dims: int = 3) -> tuple[Any, ...]:
    """Return kernel arguments: each tensor, then its first `dims` strides; for None, None and zeros."""
    absent = (None, *[0] * dims)
    return tuple(word for x in xs for word in (absent if x is None else (x, *x.stride()[:dims])))


def by_time(x: Float[Tensor, "B H T C"], size: int | None = None) -> Float[Tensor, "B H T {size}"]:
    """Return an empty tensor with the heads of a token side by side in memory, as projections have them.

    size: the size of the last dimension, where that is not C.
    """
    batch, heads, length, channels = x.shape
    return x.new_empty(batch, length, heads, channels if size is None else size).transpose(1, 2)
