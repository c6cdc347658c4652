"""The delta rule with a diagonal-plus-low-rank transition: chunks against token after token."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from zoo.kernels.dplr_delta_rule import dplr_delta_rule, dplr_delta_rule_chunked, dplr_delta_rule_reference
from zoo.kernels.dplr_delta_rule.chunked import CHUNK

LENGTHS = [1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]


def draw(T: int, B: int = 2, H: int = 3, K: int = 5, V: int = 4, strength: float = 1.0) -> list[Tensor]:
    """q, k, v, a, b, log_decay and a first state; a and b as a delta rule has them, so that nothing grows."""
    shapes = [
        (B, H, T, K),
        (B, H, T, K),
        (B, H, T, V),
        (B, H, T, K),
        (B, H, T, 1),
        (B, H, T, K),
        (B, H, K, V),
    ]
    q, k, v, a, rate, decay, state = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    a = F.normalize(a, dim=-1)
    inputs = (q, k, v, a, -rate.sigmoid() * a, -strength * decay.exp(), state)
    return [s.detach().requires_grad_() for s in inputs]


def loss(y: Tensor, state: Tensor) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return sum((s * torch.randn(s.shape, generator=rng, dtype=s.dtype)).sum() for s in (y.sin(), state.cos()))


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("strength", [0.01, 1, 300])
@pytest.mark.parametrize("length", LENGTHS)
def test_chunks_agree_with_the_reference(length, strength, with_state):
    inputs = draw(length, strength=strength)[: 7 if with_state else 6]
    fast, slow = dplr_delta_rule_chunked(*inputs), dplr_delta_rule_reference(*inputs)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-11)
    gradients = [torch.autograd.grad(loss(*out), inputs) for out in (fast, slow)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_the_reference_is_the_recurrence_as_matrices():
    q, k, v, a, b, g, S = (s.detach()[0, 0] for s in draw(9))
    y, last = dplr_delta_rule_reference(*(s[None, None] for s in (q, k, v, a, b, g, S)))
    for t in range(9):
        S = (torch.diag(g[t].exp()) + torch.outer(b[t], a[t])) @ S + torch.outer(k[t], v[t])
        torch.testing.assert_close(y[0, 0, t], S.T @ q[t])
    torch.testing.assert_close(last[0, 0], S)


def test_members_of_a_population_are_computed_apart():
    members = [draw(CHUNK + 3) for _ in range(3)]
    stacks = [torch.stack(parts).detach().requires_grad_() for parts in zip(*members, strict=True)]
    together = vmap(dplr_delta_rule)(*stacks)
    alone = [dplr_delta_rule(*(s[p] for s in stacks)) for p in range(3)]
    alone = tuple(torch.stack(part) for part in zip(*alone, strict=True))
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=1e-11)
    gradients = [torch.autograd.grad(loss(*out), stacks) for out in (together, alone)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("strength", [0.001, 1, 1e4])
def test_any_decay_stays_finite_over_long_sequences_in_single_precision(strength):
    inputs = [s.detach().float().requires_grad_() for s in draw(4096, B=1, H=1, strength=strength)]
    y, state = dplr_delta_rule(*inputs)
    gradients = torch.autograd.grad(y.square().mean() + state.mean(), inputs)
    assert all(s.isfinite().all() for s in (y, state, *gradients))
