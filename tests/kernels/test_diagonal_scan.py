"""The diagonal scan: the loop in place against the recurrence as it is written, values and gradients."""

import pytest
import torch
from torch import Tensor

from zoo.kernels.diagonal_scan import diagonal_scan, diagonal_scan_in_place, diagonal_scan_reference


def draw(length: int, leading: tuple[int, ...] = (3,)) -> list[Tensor]:
    """decay, x and a first state."""
    sizes = [(*leading, length, 4), (*leading, length, 4), (*leading, 4)]
    return [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
@pytest.mark.parametrize("length", [1, 2, 33])
def test_it_agrees_with_the_reference(length: int, leading: tuple[int, ...], with_state: bool):
    inputs = draw(length, leading)[: 3 if with_state else 2]
    got, want = diagonal_scan_in_place(*inputs), diagonal_scan_reference(*inputs)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    grads = [torch.autograd.grad(hs.sin().sum() + last.cos().sum(), inputs) for hs, last in (got, want)]
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-12)


def test_inputs_stay_as_they_were():
    inputs = draw(9)
    before = [s.clone() for s in inputs]
    hs, _ = diagonal_scan(*inputs)
    hs.sum().backward()
    assert all(a.equal(b) for a, b in zip(inputs, before, strict=True))


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (0, None, 0), (None, 0, None)])
def test_a_stack_of_members_is_as_each_alone(in_dims: tuple[int | None, ...]):
    members = [draw(7) for _ in range(2)]
    inputs = [
        members[0][i] if dim is None else torch.stack([m[i] for m in members])
        for i, dim in enumerate(in_dims)
    ]
    hs, last = torch.vmap(diagonal_scan, in_dims=in_dims)(*inputs)
    for m in range(2):
        alone = diagonal_scan(*(s if dim is None else s[m] for s, dim in zip(inputs, in_dims, strict=True)))
        torch.testing.assert_close((hs[m], last[m]), alone, rtol=1e-12, atol=1e-12)
