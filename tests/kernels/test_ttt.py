"""Test-time training: the dual form against the steps written out, values and gradients, at any cut."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from zoo.kernels.ttt import ttt, ttt_dual, ttt_reference

B, H, C, M = 2, 2, 4, 4


def draw(length: int, hidden: list[int], seen: int) -> list[Tensor]:
    """q, k, v, lr, scale, the norm's two, then the weights, then (inside a mini-batch) the sums."""
    rng = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=rng)

    tokens = [normal(B, H, length, C) for _ in range(3)]
    sizes = [C, *hidden, C]
    shapes = [s for a, b in pairwise(sizes) for s in ((B, H, a, b), (B, H, 1, b))]
    inner = [normal(*shape) for shape in shapes * (2 if seen else 1)]
    rest = [normal(B, H, length).sigmoid(), normal(M).sigmoid(), 1 + normal(H, 1, C) / 4, normal(H, 1, C)]
    return [x.requires_grad_() for x in (*tokens, *rest, *inner)]


def run(form, leaves: list[Tensor], seen: int) -> list[Tensor]:
    q, k, v, lr, scale, weight, bias, *inner = leaves
    half = len(inner) // 2 if seen else len(inner)
    sums = tuple(inner[half:]) if seen else None
    y, weights, sums = form(q, k, v, lr, scale, (weight, bias), tuple(inner[:half]), sums, seen)
    assert (sums is None) == ((seen + q.shape[2]) % M == 0)
    return [y, *weights, *(sums or ())]


@pytest.mark.parametrize("hidden", [[], [7], [3, 5]])
@pytest.mark.parametrize(
    ("length", "seen"), [(1, 0), (3, 0), (4, 0), (9, 0), (13, 2), (1, 2), (1, 3), (5, 3)]
)
def test_the_dual_form_agrees_with_the_steps_written_out(hidden: list[int], length: int, seen: int):
    leaves = draw(length, hidden, seen)
    fast, slow = run(ttt_dual, leaves, seen), run(ttt_reference, leaves, seen)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-11)
    got, want = (
        torch.autograd.grad(sum(x.sin().sum() for x in out), leaves, materialize_grads=True)
        for out in (fast, slow)
    )
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_half_precision_inputs_are_added_up_in_single_precision():
    leaves = [x.detach().bfloat16() for x in draw(9, [7], 0)]
    with torch.autocast("cpu", torch.bfloat16):
        half = run(ttt, leaves, 0)
    assert all(x.dtype == torch.float32 for x in half)
    want = run(ttt_dual, [x.double() for x in leaves], 0)
    torch.testing.assert_close([x.double() for x in half], want, rtol=1e-3, atol=1e-3)
