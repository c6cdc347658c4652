"""Measure the distance of an implementation from its definition in float64, and the bound on it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

Inputs = Sequence[Any]  # tensors, some of which require a gradient, None, numbers
SMALLEST = 1e-30  # a smaller norm counts as this one
SINGLE = torch.finfo(torch.float32).eps
OTHER_CHOICES = 1e-3  # share of integers (ids of blocks) that may differ because of rounding


@dataclass(frozen=True)
class Distance:
    """The distance of an output or gradient from its value in float64.  error, bound: norms over the norm of
    that value; for integers, shares of the numbers that differ.
    """

    name: str
    error: float
    bound: float

    @property
    def near(self) -> bool:
        """Return whether the error is within its bound; False if it is NaN."""
        return self.error <= self.bound


@dataclass(frozen=True)
class Truth:
    """The results of a definition.  upstreams: gradients of the outputs.  exact: outputs and gradients in
    float64. theirs: the same in the dtype of the inputs.
    """

    upstreams: list[Tensor]
    exact: list[Tensor]
    theirs: list[Tensor]


def truth(definition: Callable[..., Any], inputs: Inputs) -> Truth:
    """Return the definition's results in float64 and in the dtype of the inputs, for drawn upstreams."""
    upstreams = upstreams_of(definition, inputs)
    exact = results(definition, widened(inputs), upstreams)
    return Truth(upstreams, exact, results(definition, inputs, upstreams))


def distances(
    ours: Callable[..., Any], true: Truth, inputs: Inputs, dtype: torch.dtype | None = None
) -> list[Distance]:
    """Return the distances of all outputs, then of the gradient of each input that requires one.

    The bound is twice the error of the definition on the same inputs, plus four roundings, plus the loss of
    sums in float32, which grows as the root of the largest dimension.  Roundings are those of the coarsest
    dtype among the inputs and `dtype` (autocast's; None: there is none).
    """
    mine = results(ours, inputs, true.upstreams)
    if len(mine) != len(true.exact):
        return [Distance(f"{len(mine)} results, not {len(true.exact)}", math.inf, 0.0)]
    rounding = _rounding(inputs, dtype)
    names = _names(len(true.upstreams))
    return [
        _distance(name, y, other, exact, rounding)
        for name, y, other, exact in zip(names, mine, true.theirs, true.exact, strict=False)
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
    """Return the outputs, then the gradient of each input that requires one, for these upstreams."""
    outputs = outputs_of(function, inputs)
    wanted = [x for x in inputs if requires_gradient(x)]
    pairs = [(y, u.to(y)) for y, u in zip(outputs, upstreams, strict=True) if y.requires_grad]
    grads = torch.autograd.grad([y for y, _ in pairs], wanted, [u for _, u in pairs]) if pairs else ()
    return [*(y.detach() for y in outputs), *grads]


def requires_gradient(x: Any) -> bool:
    """Return whether an input is a tensor whose gradient is wanted."""
    return isinstance(x, Tensor) and x.requires_grad


def outputs_of(function: Callable[..., Any], inputs: Inputs) -> list[Tensor]:
    """Return the outputs as a list, without those that are None."""
    y = function(*inputs)
    return [y] if isinstance(y, Tensor) else [each for each in y if each is not None]


def widened(inputs: Inputs) -> list[Any]:
    """Return the inputs with all floating numbers in float64."""
    return [
        x.detach().double().requires_grad_(x.requires_grad)
        if isinstance(x, Tensor) and x.is_floating_point()
        else x
        for x in inputs
    ]


def upstreams_of(function: Callable[..., Any], inputs: Inputs) -> list[Tensor]:
    """Draw gradients for the outputs, in float64."""
    with torch.no_grad():
        shapes = [y.shape for y in outputs_of(function, inputs)]
    rng = torch.Generator().manual_seed(0)
    device = next(x.device for x in inputs if isinstance(x, Tensor))
    return [torch.randn(shape, dtype=torch.float64, generator=rng).to(device) for shape in shapes]


def same_bits_twice(function: Callable[..., Any], inputs: Inputs) -> bool:
    """Return whether a second call repeats every output and gradient bit for bit."""
    upstreams = upstreams_of(function, inputs)
    pairs = zip(results(function, inputs, upstreams), results(function, inputs, upstreams), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)
