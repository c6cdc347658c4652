"""Work that stays in a CPU's cache: some sequences at a time."""

import torch
from torch import Tensor


def tiles(like: Tensor, sequences: int, scalars: int, cached: int) -> list[slice]:
    """Cut sequences of so many scalars into parts, as many as `cached` scalars hold, one at least.

    All at once where `like` is on a GPU, and for a compiler: they want it so.
    """
    each = max(1, cached // scalars)
    if like.is_cuda or torch.compiler.is_compiling():
        each = max(1, sequences)
    return [slice(start, start + each) for start in range(0, sequences, each)]
