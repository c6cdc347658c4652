"""Run P models of one shape as one: their weights side by side, lifted with torch.func.

A mixer stays a plain module: vmap runs it for all members at once, the losses are summed, and one backward
gives each member its own gradient.  (functorch's grad is never used: zoo's operations have no rule for it.)

P members, N scalars of one member's trained parameters, B batch, T time, A answers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap

from zoo.model import SequenceModel
from zoo.tasks.base import Batch
from zoo.training.population.dropout import Draws, draw_apart

ALIGN = 16  # scalars: each parameter starts at a multiple of these, which wide loads need


class Unstackable(ValueError):
    """These models cannot train as one; the message says why."""


class _Called(nn.Module):
    """A module whose forward calls any function of the model, since functional_call needs a forward."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(self.model, *args)


class Stack:
    """The members' models as one.  models: equal except in weights and buffers, on one device.

    weights: [P, N]; from now on a member's own modules, and so its state_dict(), are views of its row.
    Unstackable: the models differ in shapes, or in something that is no parameter and no buffer.
    """

    def __init__(self, models: Sequence[SequenceModel]) -> None:
        check_alike(models)
        self.models = list(models)
        self.template = models[0]
        self.trained = [name for name, p in self.template.named_parameters() if p.requires_grad]
        tensors = [dict(model.named_parameters()) for model in models]
        self.shapes = [tensors[0][name].shape for name in self.trained]
        self.sizes = [-(-shape.numel() // ALIGN) * ALIGN for shape in self.shapes]
        like = tensors[0][self.trained[0]]
        if any(tensors[0][name].dtype != like.dtype for name in self.trained):
            raise Unstackable("its parameters are not all of one dtype")
        self.weights = like.new_zeros(len(models), sum(self.sizes))
        self.gradient = torch.zeros_like(self.weights)
        for i, parameters in enumerate(tensors):
            for name, view in zip(self.trained, self.row(self.weights, i), strict=True):
                view.copy_(parameters[name].detach())
                parameters[name].data = view
        self.leaves = [leaf.requires_grad_() for leaf in self._parts(self.weights)]
        self.fixed = dict(_fixed(models))
        self.draws = Draws()
        draw_apart(self.template, self.draws)
        self._called = _Called(self.template)

    @property
    def size(self) -> int:
        """Return the number of members."""
        return len(self.models)

    def row(self, flat: Float[Tensor, "P N"], member: int) -> list[Tensor]:
        """Return a member's row of `flat` as views in the shapes of the trained parameters."""
        return [part[member] for part in self._parts(flat)]

    def _parts(self, flat: Float[Tensor, "P N"]) -> list[Tensor]:
        pieces = flat.detach().split(self.sizes, dim=1)
        return [
            piece[:, : shape.numel()].view(-1, *shape)
            for piece, shape in zip(pieces, self.shapes, strict=True)
        ]

    def map(self, function: Callable[[SequenceModel, Batch], Any], batch: Batch) -> Any:
        """Call `function` on each member and its batch, and return the results stacked [P ...].

        A field of the batch with one more dimension, [P B ...], holds each member's rows; otherwise all
        members share it.
        """
        fixed = {name: values for name, (values, _) in self.fixed.items()}
        dims = {name: dim for name, (_, dim) in self.fixed.items()}
        weights = dict(zip(self.trained, self.leaves, strict=True))

        def one(weights: dict[str, Tensor], fixed: dict[str, Tensor], *fields: Tensor) -> Any:
            tensors = {f"model.{name}": value for name, value in (weights | fixed).items()}
            return functional_call(self._called, tensors, (function, Batch.of(*fields)))

        apart = tuple(0 if field.ndim == 3 else None for field in batch.tensors)
        in_dims = (dict.fromkeys(weights, 0), dims, *apart)
        return vmap(one, in_dims, randomness="error")(weights, fixed, *batch.tensors)

    @torch.no_grad()
    def collect(self) -> tuple[bool, ...]:
        """Copy the gradients of the last backward to `gradient`; return which parameters have one."""
        views = self._parts(self.gradient)
        touched = tuple(leaf.grad is not None for leaf in self.leaves)
        if not all(touched):
            self.gradient.zero_()
        pairs = [(v, leaf.grad) for v, leaf in zip(views, self.leaves, strict=True) if leaf.grad is not None]
        torch._foreach_copy_([view for view, _ in pairs], [grad for _, grad in pairs])  # pyright: ignore
        return touched

    @torch.no_grad()
    def overwrite(self, member: int, like: int) -> None:
        """Give a member whose own weights no longer matter the weights of another.

        Weights that are not finite would not leave its row; but they are slow on some machines, and some
        operations (a factorisation) fail on them for all members.
        """
        self.weights[member] = self.weights[like]


def copy_extra_state(source: nn.Module, target: nn.Module) -> None:
    """Copy what the modules of a model hold outside of tensors to a model of the same build."""
    for first, mine in zip(source.modules(), target.modules(), strict=True):
        if type(first).get_extra_state is not nn.Module.get_extra_state:
            mine.set_extra_state(first.get_extra_state())


def _fixed(models: Sequence[SequenceModel]) -> Iterator[tuple[str, tuple[Tensor, int | None]]]:
    """Yield buffers and untrained parameters: stacked, with dim 0, where members differ, else as they are."""
    every = [
        {n: p for n, p in model.named_parameters() if not p.requires_grad} | dict(model.named_buffers())
        for model in models
    ]
    for name, first in every[0].items():
        values = [tensors[name].detach() for tensors in every]
        same = all(torch.equal(value, first) for value in values[1:])
        yield name, (values[0], None) if same else (torch.stack(values), 0)


def check_alike(models: Sequence[SequenceModel]) -> None:
    """Raise Unstackable if the models differ in more than the values of their parameters and buffers."""
    for model in models[1:]:
        for (path, first), (other_path, other) in zip(
            models[0].named_modules(), model.named_modules(), strict=False
        ):
            if path != other_path or type(first) is not type(other):
                raise Unstackable(f"its members are built differently at {path or 'the model'}")
            name = (
                _difference(_plain(first), _plain(other), _equal)
                or _difference(first._parameters, other._parameters, _same_kind)
                or _difference(first._buffers, other._buffers, _same_kind)
            )
            if name:
                raise Unstackable(f"{path or 'the model'}.{name} differs between its members")


def _plain(module: nn.Module) -> dict[str, Any]:
    """Return the attributes of a module other than its tensors and submodules."""
    return {
        k: v
        for k, v in vars(module).items()
        if k not in ("_parameters", "_buffers", "_modules") and not isinstance(v, nn.Module)
    }


def _difference(
    first: Mapping[str, Any], other: Mapping[str, Any], alike: Callable[[Any, Any], bool]
) -> str | None:
    """Return a name that only one of the two has, or whose values are not alike; None: there is none."""
    if first.keys() != other.keys():
        return min(first.keys() ^ other.keys())
    return next((key for key, value in first.items() if not alike(value, other[key])), None)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return _difference(a, b, _equal) is None
    if isinstance(a, nn.Module) or callable(a):
        return type(a) is type(b)
    if type(a) is type(b) and type(a).__eq__ is object.__eq__:
        return a is b or (bool(vars(a)) and _difference(vars(a), vars(b), _equal) is None)
    return a == b


def _same_kind(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return (a.shape, a.dtype, a.requires_grad) == (b.shape, b.dtype, b.requires_grad)
