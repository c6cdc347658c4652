"""How far an implementation is from the definition in float64, output by output, and how far it may be."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

Inputs = Sequence[Any]  # tensors, some of which require a gradient, None, numbers
SMALLEST = 1e-30  # a norm below it counts as it
SINGLE = torch.finfo(torch.float32).eps
OTHER_CHOICES = 1e-3  # share of whole numbers (ids of blocks) that rounding may choose otherwise


@dataclass(frozen=True)
class Distance:
    """Of one output or gradient from the one in float64: error and bound in norm, of the norm of that one;
    of whole numbers, the share that differs."""

    name: str
    error: float
    bound: float

    @property
    def near(self) -> bool:
        """False for an error that is no number."""
        return self.error <= self.bound


@dataclass(frozen=True)
class Truth:
    """upstreams: gradients of the outputs.  exact: the definition's outputs and gradients in float64.
    theirs: in the dtype of the inputs."""

    upstreams: list[Tensor]
    exact: list[Tensor]
    theirs: list[Tensor]


def truth(definition: Callable[..., Any], inputs: Inputs) -> Truth:
    upstreams = upstreams_of(definition, inputs)
    exact = results(definition, widened(inputs), upstreams)
    return Truth(upstreams, exact, results(definition, inputs, upstreams))


def distances(
    ours: Callable[..., Any], true: Truth, inputs: Inputs, dtype: torch.dtype | None = None
) -> list[Distance]:
    """Outputs, then the gradient of each input that requires one.

    Allowed is twice the error of the definition on the same inputs, four roundings, and what sums in float32
    lose: over the largest dimension, growing as its root.  dtype: in which it rounds (autocast); None: the
    coarsest of the inputs.
    """
    mine = results(ours, inputs, true.upstreams)
    if len(mine) != len(true.exact):
        return [Distance(f"{len(mine)} results, not {len(true.exact)}", math.inf, 0.0)]
    rounding = _rounding(inputs, dtype)
    names = _names(len(true.upstreams))
    return [
        _distance(name, own, other, exact, rounding)
        for name, own, other, exact in zip(names, mine, true.theirs, true.exact, strict=False)
    ]


def _names(outputs: int) -> Iterator[str]:
    yield from (f"output {i}" for i in range(outputs))
    yield from (f"gradient {i}" for i in count())


def _distance(name: str, mine: Tensor, other: Tensor, true: Tensor, rounding: float) -> Distance:
    if mine.shape != true.shape:
        return Distance(name, math.inf, 0.0)
    if not true.is_floating_point():
        error, allowed = (float((x != true).double().mean()) if true.numel() else 0.0 for x in (mine, other))
        return Distance(name, error, 2 * allowed + OTHER_CHOICES)
    size = true.norm().clamp(min=SMALLEST)
    error, allowed = (float((x.double() - true).norm() / size) for x in (mine, other))
    return Distance(name, error, 2 * allowed + rounding)


def _rounding(inputs: Inputs, dtype: torch.dtype | None) -> float:
    given = [x for x in inputs if isinstance(x, Tensor)]
    dtypes = [x.dtype for x in given if x.is_floating_point()] + ([dtype] if dtype else [])
    coarsest = max((torch.finfo(kind).eps for kind in dtypes), default=SINGLE)
    longest = max((size for x in given for size in x.shape), default=1)
    return 4 * coarsest + math.sqrt(longest) * SINGLE


def results(function: Callable[..., Any], inputs: Inputs, upstreams: Sequence[Tensor]) -> list[Tensor]:
    """The outputs, and the gradient of each input that requires one for these gradients of the outputs."""
    outputs = outputs_of(function, inputs)
    wanted = [x for x in inputs if _trained(x)]
    pairs = [(y, u.to(y)) for y, u in zip(outputs, upstreams, strict=True) if y.requires_grad]
    grads = torch.autograd.grad([y for y, _ in pairs], wanted, [u for _, u in pairs]) if pairs else ()
    return [*(y.detach() for y in outputs), *grads]


def outputs_of(function: Callable[..., Any], inputs: Inputs) -> list[Tensor]:
    """As a list, without what is None."""
    found = function(*inputs)
    return [found] if isinstance(found, Tensor) else [y for y in found if y is not None]


def _trained(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def widened(inputs: Inputs) -> list[Any]:
    """In float64, what is a floating number."""
    return [
        x.detach().double().requires_grad_(x.requires_grad)
        if isinstance(x, Tensor) and x.is_floating_point()
        else x
        for x in inputs
    ]


def upstreams_of(function: Callable[..., Any], inputs: Inputs) -> list[Tensor]:
    """Random gradients of the outputs, in float64."""
    with torch.no_grad():
        shapes = [y.shape for y in outputs_of(function, inputs)]
    rng = torch.Generator().manual_seed(0)
    device = next(x.device for x in inputs if isinstance(x, Tensor))
    return [torch.randn(shape, dtype=torch.float64, generator=rng).to(device) for shape in shapes]


def same_bits_twice(function: Callable[..., Any], inputs: Inputs) -> bool:
    """Whether a second call gives every output and gradient bit for bit."""
    upstreams = upstreams_of(function, inputs)
    pairs = zip(results(function, inputs, upstreams), results(function, inputs, upstreams), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)
