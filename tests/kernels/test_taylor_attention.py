"""The fused Taylor attention against its definition, and that against the recurrence over packed features."""

import pytest
import torch

from zoo.kernels.linear_attention import linear_attention_reference
from zoo.kernels.taylor_attention import fused, taylor_attention, taylor_attention_reference
from zoo.mixers.feature_maps import Taylor2


def qkv(length: int, channels: int = 5) -> list[torch.Tensor]:
    sizes = (channels, channels, 7)
    return [torch.randn(2, 3, length, c, dtype=torch.float64, requires_grad=True) for c in sizes]


@pytest.mark.parametrize("at_once", [1, 2**18])
@pytest.mark.parametrize("length", [1, 2, 33, 64, 65, 150])
def test_agrees_with_the_reference(monkeypatch, length: int, at_once: int):
    """In one part, or in many: blocks of 64 queries, `at_once` weights."""
    monkeypatch.setitem(fused.AT_ONCE, "cpu", at_once)
    inputs = qkv(length)
    y, expected = taylor_attention(*inputs, 1e-3), taylor_attention_reference(*inputs, 1e-3)
    torch.testing.assert_close(y, expected)
    upstream = torch.randn_like(y)
    grads = torch.autograd.grad(y, inputs, upstream)
    torch.testing.assert_close(grads, torch.autograd.grad(expected, inputs, upstream))


@pytest.mark.parametrize("channels", [1, 2, 5, 16])
def test_packed_features_give_the_polynomial(channels: int):
    """Half the products are enough: the recurrence over 1 + C + C (C + 1) / 2 features is the same map."""
    q, k, v = qkv(19, channels)
    phi = Taylor2(channels).double()
    assert phi(q).shape[-1] == phi.expanded_dim == 1 + channels + channels * (channels + 1) // 2
    recurrent, *_ = linear_attention_reference(phi(q), phi(k), v, 1e-6)
    torch.testing.assert_close(recurrent, taylor_attention_reference(q, k, v, 1e-6), rtol=1e-12, atol=1e-12)


def test_a_stack_of_members_is_one_more_dimension():
    q, k, v = qkv(9)
    qs, vs = torch.stack([q, 2 * q], dim=2), torch.stack([v, v + 1])
    y = torch.vmap(taylor_attention, in_dims=(2, None, 0, None))(qs, k, vs, 1e-6)
    for i in range(2):
        torch.testing.assert_close(y[i], taylor_attention_reference(qs[:, :, i], k, vs[i], 1e-6))


def test_gradients_inside_vmap():
    def loss(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return taylor_attention(q, k, v, 1e-3).square().sum()

    members = [torch.stack([x.detach(), 2 * x.detach()]) for x in qkv(70)]
    got = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(*members)
    for i in range(2):
        alone = torch.func.grad(loss, argnums=(0, 1, 2))(*(x[i] for x in members))
        torch.testing.assert_close([x[i] for x in got], list(alone))
