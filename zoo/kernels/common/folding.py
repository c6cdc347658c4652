"""The batching rule of ops whose first dimension is a batch: stacked members become a larger batch."""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from torch import Tensor
from torch.autograd import Function


class Folding(Function):
    """An op that torch.vmap runs on members * B sequences; every input and output has B in front.

    unbatched: positions of the inputs that have no batch and are the same for all members.
    """

    unbatched: ClassVar[Collection[int]] = ()

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple, *inputs: Any) -> tuple:  # pyright: ignore
        """Run all members as one larger batch."""
        if differ := [i for i in cls.unbatched if i < len(in_dims) and in_dims[i] is not None]:
            raise ValueError(f"stacked members must share inputs {differ} of {cls.__module__}")
        outputs = cls.apply(*fold(info.batch_size, in_dims, inputs, cls.unbatched))
        return unfold(info.batch_size, outputs), in_front(outputs)


class Gradients(Folding):
    """The backward pass of an op: a Function of its own, so that it has a batching rule too."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        del ctx, inputs, output

    @classmethod
    def backward(cls, ctx: Any, *grads: Tensor) -> None:  # pyright: ignore
        """Refuse second derivatives."""
        raise NotImplementedError(f"{cls.__module__} has first derivatives only: kernels=reference.")


def fold(
    members: int, in_dims: Sequence[int | None], inputs: Sequence[Any], unbatched: Collection[int] = ()
) -> list[Any]:
    """Turn the arguments of a torch.vmap rule into inputs with members * B in front; numbers stay the same.

    unbatched: as in `Folding`.
    A contiguous input stays contiguous, as kernels rely on it: they get no view of one member for all.
    """
    return [
        _folded(members, dim, x) if isinstance(x, Tensor) and i not in unbatched else x
        for i, (dim, x) in enumerate(zip(in_dims, inputs, strict=True))
    ]


def _folded(members: int, dim: int | None, x: Tensor) -> Tensor:
    folded = members_first(members, dim, x).flatten(0, 1)  # for a batch of one a view, not a copy
    return folded if dim == 0 else folded.contiguous()


def members_first(members: int, dim: int | None, x: Tensor) -> Tensor:
    """Return an argument of a torch.vmap rule with the members as its first dimension."""
    return x.expand(members, *x.shape) if dim is None else x.movedim(dim, 0)


def all_members_first(members: int, in_dims: Sequence[int | None], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Apply `members_first` to each."""
    return [members_first(members, dim, x) for dim, x in zip(in_dims, inputs, strict=True)]


def unfold(members: int, outputs: Any) -> Any:
    """Turn [members * B ...] into [members B ...]: one tensor, or each of several."""
    if isinstance(outputs, Tensor):
        return outputs.unflatten(0, (members, -1))
    return tuple(unfold(members, x) for x in outputs)


def in_front(outputs: Any) -> Any:
    """Return the dimension of the members in each output, for torch.vmap: the first."""
    return 0 if isinstance(outputs, Tensor) else (0,) * len(outputs)
