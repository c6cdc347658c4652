"""The batching rule of ops whose first dimension is a batch: stacked members become more of it."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def fold(members: int, in_dims: Sequence[int | None], inputs: Sequence[Any]) -> list[Any]:
    """What torch.vmap hands to a rule, as inputs with members * B in front; what is no tensor stays."""
    return [
        _folded(members, dim, x) if isinstance(x, Tensor) else x
        for dim, x in zip(in_dims, inputs, strict=True)
    ]


def _folded(members: int, dim: int | None, x: Tensor) -> Tensor:
    return (x.expand(members, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)


def unfold(members: int, outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """[members * B ...] as [members B ...]."""
    return tuple(x.unflatten(0, (members, -1)) for x in outputs)
