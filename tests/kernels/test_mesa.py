"""The Mesa layer: all systems at once against one after another; it is a least-squares fit."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from zoo.kernels.mesa import mesa, mesa_reference, mesa_solved
from zoo.kernels.mesa.solved import BLOCK


def draw(T: int, H: int = 2, K: int = 4, V: int = 3) -> list[Tensor]:
    """q, k, v, beta, log_decay, ridge, earlier keys and a sum of keys times values, of two sequences."""
    rng = torch.Generator().manual_seed(T)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=rng)

    q, k, past = normal(2, H, T, K), normal(2, H, T, K), normal(2, H, 9, K)
    tokens = [q, k, normal(2, H, T, V), normal(2, H, T).sigmoid(), -normal(2, H, T).exp() / 4]
    parts = [*tokens, normal(H, K).exp() / 4 + 0.25, past, normal(2, H, K, V)]
    return [x.detach().requires_grad_() for x in parts]


def loss(y: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
    return sum(x.sin().sum() for x in (y, *state))


@pytest.mark.parametrize("length", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("with_state", [True, False])
def test_all_at_once_is_one_after_another(length: int, with_state: bool):
    *inputs, past, kv = draw(length)
    state = (past.mT @ past, kv) if with_state else None
    out = [form(*inputs, state) for form in (mesa_solved, mesa_reference)]
    torch.testing.assert_close(*out, rtol=1e-10, atol=1e-11)
    leaves = [*inputs, past, kv] if with_state else inputs
    gradients = [torch.autograd.grad(loss(*o), leaves, retain_graph=True) for o in out]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-10)


def test_it_recalls_what_few_keys_were_given():
    """With next to no ridge and no decay, fewer keys than channels: each key's own value."""
    _, k, v, beta, decay, ridge, *_ = draw(4)
    y, _ = mesa_solved(k, k, v, torch.ones_like(beta), torch.zeros_like(decay), torch.full_like(ridge, 1e-13))
    torch.testing.assert_close(y, v, rtol=1e-5, atol=1e-5)


def test_a_population_runs_as_its_members_do():
    members = [draw(BLOCK + 3)[:6], [x.detach() / 2 for x in draw(BLOCK + 3)[:6]]]
    stacks = [torch.stack(parts).detach().requires_grad_() for parts in zip(*members, strict=True)]
    together = vmap(lambda *s: mesa(*s)[0])(*stacks)
    alone = torch.stack([mesa(*s)[0] for s in zip(*stacks, strict=True)])
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=1e-11)
    got, want = (torch.autograd.grad(y.sin().sum(), stacks) for y in (together, alone))
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)


def test_single_precision_stays_close_where_keys_repeat():
    """1,024 equal keys without decay: the matrix's condition number is a thousand times that of one key."""
    q, k, v, beta, decay, ridge, *_ = (x.detach() for x in draw(1024))
    k = F.normalize(k[:, :, :1], dim=-1).expand_as(k)
    exact, _ = mesa_reference(q, k, v, beta, torch.zeros_like(decay), ridge)
    inputs = [x.float().requires_grad_() for x in (q, k, v, beta, torch.zeros_like(decay), ridge)]
    y, _ = mesa_solved(*inputs)
    torch.testing.assert_close(y.double(), exact, rtol=1e-3, atol=1e-3)
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), inputs))
