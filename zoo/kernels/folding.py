"""The batching rule of ops whose first dimension is a batch: stacked members become more of it."""

from collections.abc import Collection, Sequence
from typing import Any

from torch import Tensor


def fold(
    members: int, in_dims: Sequence[int | None], inputs: Sequence[Any], unbatched: Collection[int] = ()
) -> list[Any]:
    """What torch.vmap hands to a rule, as inputs with members * B in front; what is no tensor stays.

    unbatched: places of inputs that have no batch and are the same for all members; they stay too.
    What was contiguous is so again: a kernel that counts on it sees no view of one member for all.
    """
    return [
        _folded(members, dim, x) if isinstance(x, Tensor) and i not in unbatched else x
        for i, (dim, x) in enumerate(zip(in_dims, inputs, strict=True))
    ]


def _folded(members: int, dim: int | None, x: Tensor) -> Tensor:
    folded = members_first(members, dim, x).flatten(0, 1)  # of a batch of one no copy, but a view
    return folded if dim == 0 else folded.contiguous()


def members_first(members: int, dim: int | None, x: Tensor) -> Tensor:
    """What torch.vmap hands to a rule, with the members as its first dimension."""
    return x.expand(members, *x.shape) if dim is None else x.movedim(dim, 0)


def unfold(members: int, outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """[members * B ...] as [members B ...]."""
    return tuple(x.unflatten(0, (members, -1)) for x in outputs)
