"""Cut work into parts of a few sequences, each of which stays in a CPU's cache."""

import torch
from torch import Tensor


def tiles(like: Tensor, sequences: int, scalars: int, cached: int) -> list[slice]:
    """Cut sequences of `scalars` scalars each into parts of at most `cached` scalars, one sequence at least.

    Where `like` is on a GPU, or a compiler traces, one part holds everything, which is faster there.
    """
    each = max(1, cached // scalars)
    if like.is_cuda or torch.compiler.is_compiling():
        each = max(1, sequences)
    return [slice(start, start + each) for start in range(0, sequences, each)]
