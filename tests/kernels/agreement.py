"""How near a kernel comes to the definition in float64, outputs and gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.utils._pytree import tree_leaves

from zoo.kernels.common import agreement
from zoo.kernels.common.agreement import (
    Distance,
    Inputs,
    distances,
    outputs_of,
    results,
    truth,
    upstreams_of,
    widened,
)

ON_A_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
__all__ = ["outputs_of", "results", "upstreams_of", "widened"]


def as_definition(form: Callable[..., Any], definition: Callable[..., Any], inputs: Inputs) -> None:
    """In float64: all outputs, and the gradients of all inputs, are those of the definition but for rounding.

    Inputs and outputs may be nested.
    """
    leaves = [x for x in tree_leaves(inputs) if isinstance(x, Tensor) and x.requires_grad]
    both = []
    for function in (form, definition):
        outputs = [y for y in tree_leaves(function(*inputs)) if isinstance(y, Tensor)]
        rng = torch.Generator().manual_seed(0)
        sent = [torch.randn(y.shape, dtype=y.dtype, generator=rng) for y in outputs]
        pairs = [(y, u) for y, u in zip(outputs, sent, strict=True) if y.requires_grad]
        grads = torch.autograd.grad(
            [y for y, _ in pairs], leaves, [u for _, u in pairs], materialize_grads=True
        )
        both.append([*outputs, *grads])
    for i, (found, true) in enumerate(zip(*both, strict=True)):
        assert found.shape == true.shape, i
        assert _largest(found - true) <= 1e-9 * max(1.0, _largest(true)), (i, _largest(found - true))


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
        assert mine.shape == true.shape
        error, allowed, size = (_largest(x) for x in (mine - true, other - true, true))
        assert error <= factor * allowed + 5e-7 * size, (i, error, allowed, size)


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max()) if x.numel() else 0.0


HELD: list[Distance] = []  # of the test that runs, for its report


def near_in_norm(ours: Callable[..., Any], reference: Callable[..., Any], inputs: Inputs) -> None:
    """On a device, in any dtype: as `zoo.kernels.common.agreement` says."""
    torch.backends.cuda.matmul.allow_tf32 = False
    found = distances(ours, truth(reference, inputs), inputs)
    HELD.extend(found)
    assert all(one.near for one in found), found


def members_as_alone(ours: Callable[..., Any], inputs: Inputs, in_dims: Sequence[int | None]) -> None:
    """Two members under torch.vmap, with one outer backward, as a population trains: what each gets alone.

    inputs: the first member's; where in_dims, which is vmap's, has a number, each has its own.  The gradient
    of what they share is the sum of theirs.
    """
    members = [[_own(x, i, dim) for x, dim in zip(inputs, in_dims, strict=True)] for i in range(2)]
    stacks = [
        x if dim is None else torch.stack([own.detach() for own in each], dim).requires_grad_(x.requires_grad)
        for x, dim, each in zip(inputs, in_dims, zip(*members, strict=True), strict=True)
    ]
    outputs = outputs_of(vmap(ours, in_dims=tuple(in_dims)), stacks)
    rng = torch.Generator().manual_seed(0)
    sent = [torch.randn(y.shape, generator=rng, dtype=y.dtype) for y in outputs]
    leaves = [
        (x, dim)
        for x, dim in zip(stacks, in_dims, strict=True)
        if (isinstance(x, Tensor) and x.requires_grad)
    ]
    pairs = [(y, u) for y, u in zip(outputs, sent, strict=True) if y.requires_grad]
    grads = torch.autograd.grad([y for y, _ in pairs], [x for x, _ in leaves], [u for _, u in pairs])
    alone = [results(ours, own, [u[i] for u in sent]) for i, own in enumerate(members)]
    dims = [0 for _ in outputs] + [dim for _, dim in leaves]
    expected = [
        sum(each) if dim is None else torch.stack(each, dim)
        for dim, each in zip(dims, zip(*alone, strict=True), strict=True)
    ]
    torch.testing.assert_close([*outputs, *grads], expected)


def _own(x: Any, member: int, dim: int | None) -> Any:
    """Numbers by which members are told apart, and which are as good as those given for any op."""
    if dim is None:
        return x
    own = x.detach() / (member + 1) if x.is_floating_point() else x.flatten().roll(member).view_as(x)
    return own.requires_grad_(x.requires_grad)


def gradients_inside_vmap(ours: Callable[..., Any], inputs: Inputs) -> None:
    """vmap over grad, by all inputs that require a gradient: the backward pass has a batching rule too."""
    places = [i for i, x in enumerate(inputs) if (isinstance(x, Tensor) and x.requires_grad)]

    def loss(*leaves: Tensor) -> Tensor:
        chosen = dict(zip(places, leaves, strict=True))
        outputs = outputs_of(ours, [chosen.get(i, x) for i, x in enumerate(inputs)])
        return torch.stack([y.square().sum() for y in outputs]).sum()

    members = [[_own(inputs[i], member, 0).detach() for i in places] for member in range(2)]
    by_all = grad(loss, argnums=tuple(range(len(places))))
    expected = [torch.stack(each) for each in zip(*(by_all(*own) for own in members), strict=True)]
    stacks = [torch.stack(each) for each in zip(*members, strict=True)]
    torch.testing.assert_close(list(vmap(by_all)(*stacks)), expected)


def same_bits_twice(ours: Callable[..., Any], inputs: Inputs) -> None:
    assert agreement.same_bits_twice(ours, inputs)


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
