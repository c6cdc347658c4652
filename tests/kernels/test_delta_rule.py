"""The delta rule: chunks against the written-out recurrence, values, gradients and the state."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from zoo.kernels.delta_rule import delta_rule, delta_rule_chunked, delta_rule_reference
from zoo.kernels.delta_rule.chunked import CHUNK

LENGTHS = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5]


def draw(T: int, H: int = 2, K: int = 5, V: int = 3, strength: float = 1.0) -> list[Tensor]:
    """q, k, v, beta, log_decay and a first state, of two sequences."""
    rng = torch.Generator().manual_seed(T)

    def normal(*shape: int) -> Tensor:
        return torch.randn(2, H, *shape, dtype=torch.float64, generator=rng)

    q, k, v, beta, decay, state = normal(T, K), normal(T, K), normal(T, V), normal(T), normal(T), normal(K, V)
    inputs = (q, F.normalize(k, dim=-1), v, 2 * beta.sigmoid(), -strength * F.softplus(decay), state)
    return [x.detach().requires_grad_() for x in inputs]


@pytest.mark.parametrize("writes", [2, 3])
@pytest.mark.parametrize("length", [1, CHUNK // 2, CHUNK])
@pytest.mark.parametrize("with_decay", [True, False])
def test_a_query_may_read_after_several_writes(writes: int, length: int, with_decay: bool):
    """As if it stood at each of them and the other answers were thrown away."""
    q, k, v, beta, decay, state = draw(writes * length)
    rest = [k, v, beta, decay if with_decay else None, state]
    every, last = delta_rule_reference(q, *rest)
    leaves = [q, *(x for x in rest if x is not None)]
    want = every[:, :, writes - 1 :: writes], last
    for form in (delta_rule_chunked, delta_rule_reference):
        got = form(q[:, :, writes - 1 :: writes], *rest)
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
        gradients = [torch.autograd.grad(loss(*out), leaves, retain_graph=True) for out in (got, want)]
        torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-11)


def loss(y: Tensor, S: Tensor) -> Tensor:
    return y.sin().sum() + S.cos().sum()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("with_decay", [True, False])
@pytest.mark.parametrize("with_state", [True, False])
def test_chunks_agree_with_the_recurrence(length: int, with_decay: bool, with_state: bool):
    *inputs, decay, state = draw(length)
    inputs += [decay if with_decay else None, state if with_state else None]
    fast, slow = delta_rule_chunked(*inputs), delta_rule_reference(*inputs)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-11)
    leaves = [x for x in inputs if x is not None]
    got, want = (torch.autograd.grad(loss(*out), leaves) for out in (fast, slow))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)


def test_the_reference_is_the_products_of_the_paper():
    """S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T (arXiv 2412.06464, Eq. 10)."""
    q, k, v, beta, decay, S = (x.detach()[0, 0] for x in draw(4))
    y, last = delta_rule_reference(*(x[None, None] for x in (q, k, v, beta, decay, S)))
    for t in range(4):
        kept = torch.eye(5, dtype=S.dtype) - beta[t] * torch.outer(k[t], k[t])
        S = decay[t].exp() * kept @ S + beta[t] * torch.outer(k[t], v[t])
        torch.testing.assert_close(y[0, 0, t], S.T @ q[t])
    torch.testing.assert_close(last[0, 0], S)


def test_a_population_runs_as_its_members_do():
    members = [draw(CHUNK + 3), [2 * x.detach() for x in draw(CHUNK + 3)]]
    members[1][1] = members[0][1]
    stacks = [torch.stack(parts).detach().requires_grad_() for parts in zip(*members, strict=True)]
    together = vmap(delta_rule)(*stacks)
    alone = [
        torch.stack(parts) for parts in zip(*(delta_rule(*s) for s in zip(*stacks, strict=True)), strict=True)
    ]
    torch.testing.assert_close(list(together), alone, rtol=1e-11, atol=1e-11)
    got, want = (torch.autograd.grad(loss(*out), stacks) for out in (together, alone))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("strength", [0.0, 1.0, 1e4])
def test_no_decay_is_too_strong_or_too_weak_in_single_precision(strength: float):
    exact = [x.detach() for x in draw(1024, strength=strength)]
    single = [x.float().requires_grad_() for x in exact]
    y, S = delta_rule_chunked(*single)
    gradients = torch.autograd.grad(loss(y, S), single)
    assert all(x.isfinite().all() for x in (y, S, *gradients))
    want, _ = delta_rule_reference(*(x.double() for x in single))
    torch.testing.assert_close(y.double(), want, rtol=1e-3, atol=1e-3)


def test_half_precision_inputs_are_added_up_in_single_precision():
    half = [x.detach().bfloat16() for x in draw(CHUNK + 2)]
    with torch.autocast("cpu", torch.bfloat16):
        y, S = delta_rule(*half)
    assert (y.dtype, S.dtype) == (torch.float32, torch.float32)
    want, _ = delta_rule_reference(*(x.double() for x in half))
    torch.testing.assert_close(y.double(), want, rtol=1e-4, atol=1e-4)
