"""Compare the outputs and gradients of a kernel with its definition in float64."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.utils._pytree import tree_leaves

from zoo.kernels.common.agreement import (
    Distance,
    Inputs,
    distances,
    outputs_of,
    requires_gradient,
    results,
    truth,
    upstreams_of,
    widened,
)

ON_A_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
# as zoo.training.process has it
QUIET = pytest.mark.filterwarnings("ignore:.*constructed with capturable=True")
__all__ = ["outputs_of", "results", "upstreams_of", "widened"]


def as_definition(form: Callable[..., Any], definition: Callable[..., Any], inputs: Inputs) -> None:
    """Assert that in float64 all outputs and gradients are those of the definition but for rounding.

    Inputs and outputs may be nested.
    """
    leaves = [x for x in tree_leaves(inputs) if requires_gradient(x)]
    both = []
    for function in (form, definition):
        outputs = [y for y in tree_leaves(function(*inputs)) if isinstance(y, Tensor)]
        rng = torch.Generator().manual_seed(0)
        terms = [(y * torch.randn(y.shape, dtype=y.dtype, generator=rng)).sum() for y in outputs]
        grads = torch.autograd.grad(torch.stack(terms).sum(), leaves, materialize_grads=True)
        both.append([*outputs, *grads])
    for i, (actual, true) in enumerate(zip(*both, strict=True)):
        assert actual.shape == true.shape, i
        assert _largest(actual - true) <= 1e-9 * max(1.0, _largest(true)), (i, _largest(actual - true))


def as_near_as_torch(
    ours: Callable[..., Any], reference: Callable[..., Any], inputs: Inputs, factor: float = 4
) -> None:
    """Assert that in float32 the largest error of each result is at most `factor` times the reference's."""
    true = truth(reference, inputs)
    rows = zip(results(ours, inputs, true.upstreams), true.theirs, true.exact, strict=True)
    for i, (mine, other, exact) in enumerate(rows):
        assert mine.shape == exact.shape
        error, allowed, size = (_largest(x) for x in (mine - exact, other - exact, exact))
        assert error <= factor * allowed + 5e-7 * size, (i, error, allowed, size)


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max()) if x.numel() else 0.0


HELD: list[Distance] = []  # of the test that runs, for its report


def near_in_norm(ours: Callable[..., Any], reference: Callable[..., Any], inputs: Inputs) -> None:
    """Assert that all results are within the bounds of `zoo.kernels.common.agreement`, in any dtype."""
    torch.backends.cuda.matmul.allow_tf32 = False
    measured = distances(ours, truth(reference, inputs), inputs)
    HELD.extend(measured)
    assert all(one.near for one in measured), measured


def members_as_alone(ours: Callable[..., Any], inputs: Inputs, in_dims: Sequence[int | None]) -> None:
    """Assert that two members under torch.vmap get what each gets alone, with one outer backward.

    inputs: the first member's; where in_dims, which is vmap's, has a number, the members differ.  The
    gradient of a shared input is the sum of theirs.
    """
    members = [[_member_input(x, i, dim) for x, dim in zip(inputs, in_dims, strict=True)] for i in range(2)]
    stacks = [
        x if dim is None else torch.stack([y.detach() for y in each], dim).requires_grad_(x.requires_grad)
        for x, dim, each in zip(inputs, in_dims, zip(*members, strict=True), strict=True)
    ]
    together = vmap(ours, in_dims=tuple(in_dims))
    upstreams = upstreams_of(together, stacks)
    alone = [results(ours, member, [u[i] for u in upstreams]) for i, member in enumerate(members)]
    dims = [0] * len(upstreams) + [d for x, d in zip(stacks, in_dims, strict=True) if requires_gradient(x)]
    expected = [
        sum(each) if dim is None else torch.stack(each, dim)
        for dim, each in zip(dims, zip(*alone, strict=True), strict=True)
    ]
    torch.testing.assert_close(results(together, stacks, upstreams), expected)


def _member_input(x: Any, member: int, dim: int | None) -> Any:
    """Return other numbers for each member, as valid for any op as those given."""
    if dim is None:
        return x
    changed = x.detach() / (member + 1) if x.is_floating_point() else x.flatten().roll(member).view_as(x)
    return changed.requires_grad_(x.requires_grad)


def gradients_inside_vmap(ours: Callable[..., Any], inputs: Inputs) -> None:
    """Assert that the backward pass has a batching rule too: vmap over grad, by all trained inputs."""
    places = [i for i, x in enumerate(inputs) if requires_gradient(x)]

    def loss(*leaves: Tensor) -> Tensor:
        chosen = dict(zip(places, leaves, strict=True))
        outputs = outputs_of(ours, [chosen.get(i, x) for i, x in enumerate(inputs)])
        return torch.stack([y.square().sum() for y in outputs]).sum()

    members = [[_member_input(inputs[i], member, 0).detach() for i in places] for member in range(2)]
    by_all = grad(loss, argnums=tuple(range(len(places))))
    expected = [torch.stack(each) for each in zip(*(by_all(*member) for member in members), strict=True)]
    stacks = [torch.stack(each) for each in zip(*members, strict=True)]
    torch.testing.assert_close(list(vmap(by_all)(*stacks)), expected)


def captured_as_called(ours: Callable[..., Any], inputs: Inputs) -> None:
    """Assert that a CUDA graph of the call, which has compiled what it needs, gives what the call gives."""
    inputs = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    expected = [y.clone() for y in outputs_of(ours, inputs)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = outputs_of(ours, inputs)
    for y in actual:
        y.zero_()
    graph.replay()
    assert all(torch.equal(y, true) for y, true in zip(actual, expected, strict=True))
