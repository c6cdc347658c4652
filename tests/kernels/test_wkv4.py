"""RWKV-4's average: the fused loop against token after token, values, gradients and the last state."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from zoo.kernels.wkv4 import Averages, wkv4, wkv4_fused_loop, wkv4_reference


def draw(B: int, T: int, D: int, scale: float = 1.0) -> list[Tensor]:
    """k, v, log_decay, bonus and the three parts of a first state."""
    shapes = (B, T, D), (B, T, D), (D,), (D,), (B, D), (B, D), (B, D)
    k, v, decay, u, aa, bb, pp = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    inputs = (scale * k, scale * v, -decay.exp(), scale * u, aa, bb.exp(), scale * pp)
    return [s.detach().requires_grad_() for s in inputs]


def run(form, inputs: list[Tensor]) -> tuple[Tensor, Averages]:
    return form(*inputs[:4], Averages(*inputs[4:]) if len(inputs) > 4 else None)


def loss(y: Tensor, state: Averages) -> Tensor:
    """What the state means: the average, and the logarithm of the sum of weights."""
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return (weights * y).sum() + (state.aa / state.bb).sin().sum() + (state.pp + state.bb.log()).cos().sum()


def relative(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> float:
    pairs = [(a.detach(), b.detach()) for a, b in zip(ours, theirs, strict=True)]
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in pairs)


@pytest.mark.parametrize("scale", [1, 100])
@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("length", [1, 2, 37, 150])
def test_the_fused_loop_agrees_with_the_reference(length, with_state, scale):
    inputs = draw(2, length, 3, scale)[: 7 if with_state else 4]
    fast, slow = run(wkv4_fused_loop, inputs), run(wkv4_reference, inputs)
    assert relative((fast[0], *fast[1]), (slow[0], *slow[1])) < 1e-10
    gradients = [torch.autograd.grad(loss(*out), inputs) for out in (fast, slow)]
    assert relative(*gradients) < 1e-10


def test_the_reference_is_a_softmax_over_the_past():
    k, v, w, u = (s.detach() for s in draw(2, 20, 3)[:4])
    y, _ = wkv4_reference(k, v, w, u)
    for t in range(20):
        age = torch.arange(t - 1, -1, -1)[:, None]
        exponents = torch.cat([age * w + k[:, :t], (u + k[:, t])[:, None]], dim=1)
        torch.testing.assert_close(y[:, t], (exponents.softmax(1) * v[:, : t + 1]).sum(1))


def test_members_of_a_population_are_averaged_apart():
    members = [draw(2, 20, 3) for _ in range(3)]
    stacks = [torch.stack(parts).detach().requires_grad_() for parts in zip(*members, strict=True)]
    together = vmap(lambda *i: wkv4(*i[:4], Averages(*i[4:])))(*stacks)
    alone = [run(wkv4, [s[p] for s in stacks]) for p in range(3)]
    alone = (
        torch.stack([y for y, _ in alone]),
        Averages(*map(torch.stack, zip(*(s for _, s in alone), strict=True))),
    )
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=1e-11)
    gradients = [torch.autograd.grad(loss(*out), stacks) for out in (together, alone)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [1, 100])
def test_large_exponents_and_long_sequences_stay_finite_in_single_precision(scale):
    inputs = [s.detach().float().requires_grad_() for s in draw(1, 4096, 4, scale)[:4]]
    y, state = run(wkv4, inputs)
    gradients = torch.autograd.grad(y.mean(), inputs)
    assert all(s.isfinite().all() for s in (y, *state, *gradients))
    assert y.abs().max() <= inputs[1].abs().max() * 1.001, "an average lies among the values"
