"""How near a kernel comes to the definition in float64, outputs and gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Inputs = Sequence[Any]  # tensors, some of which require a gradient, None, numbers


def results(function: Callable[..., Any], inputs: Inputs, upstreams: Sequence[Tensor]) -> list[Tensor]:
    """The outputs, and the gradient of each input that requires one for these gradients of the outputs."""
    outputs = outputs_of(function, inputs)
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    sent = [u.to(y) for u, y in zip(upstreams, outputs, strict=True)]
    return [*(y.detach() for y in outputs), *torch.autograd.grad(outputs, wanted, sent)]


def outputs_of(function: Callable[..., Any], inputs: Inputs) -> list[Tensor]:
    """As a list, without what is None."""
    found = function(*inputs)
    return [found] if isinstance(found, Tensor) else [y for y in found if y is not None]


def widened(inputs: Inputs) -> list[Any]:
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


def as_near_as_torch(
    ours: Callable[..., Any], reference: Callable[..., Any], inputs: Inputs, factor: float = 4
) -> None:
    """In float32: the largest error of each output and gradient is at most `factor` times the reference's."""
    upstreams = upstreams_of(reference, inputs)
    exact = results(reference, widened(inputs), upstreams)
    theirs = results(reference, inputs, upstreams)
    for i, (mine, other, true) in enumerate(
        zip(results(ours, inputs, upstreams), theirs, exact, strict=True)
    ):
        error, allowed = (mine - true).abs().max(), (other - true).abs().max()
        bound = factor * allowed + 5e-7 * true.abs().max()
        assert error <= bound, (i, float(error), float(allowed), float(true.abs().max()))


def near_in_norm(ours: Callable[..., Any], reference: Callable[..., Any], inputs: Inputs) -> None:
    """On a device, in any dtype: errors in norm at most twice those of torch, which rounds each step."""
    torch.backends.cuda.matmul.allow_tf32 = False
    upstreams = upstreams_of(reference, inputs)
    exact = results(reference, widened(inputs), upstreams)
    theirs = results(reference, inputs, upstreams)
    dtype = next(x.dtype for x in inputs if isinstance(x, Tensor))
    for i, (mine, other, true) in enumerate(
        zip(results(ours, inputs, upstreams), theirs, exact, strict=True)
    ):
        error, allowed = ((x - true).norm() / true.norm().clamp(min=1e-30) for x in (mine, other))
        assert error <= 2 * allowed + 4 * torch.finfo(dtype).eps, (i, float(error), float(allowed))


def same_bits_twice(ours: Callable[..., Any], inputs: Inputs) -> None:
    upstreams = upstreams_of(ours, inputs)
    pairs = zip(results(ours, inputs, upstreams), results(ours, inputs, upstreams), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def captured_as_called(ours: Callable[..., Any], inputs: Inputs) -> None:
    """A CUDA graph of the call gives what the call gives; the call has compiled what it needs."""
    inputs = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    expected = [y.clone() for y in outputs_of(ours, inputs)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = outputs_of(ours, inputs)
    for y in found:
        y.zero_()
    graph.replay()
    assert all(torch.equal(y, true) for y, true in zip(found, expected, strict=True))
