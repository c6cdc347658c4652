"""Attention under a mask: the fused form against the written-out one, forward and backward."""

import pytest
import torch
from torch import Tensor

from zoo.kernels.choice import kernels
from zoo.kernels.masked_attention import masked_attention, masked_attention_reference


def masks(length: int, keys: int) -> dict[str, Tensor]:
    shown = torch.rand(length, keys) < 0.5
    shown[:, 0] = True
    biases = torch.randn(2, 1, length, keys, dtype=torch.float64).masked_fill(~shown, -torch.inf)
    return {"shared": shown, "of each head": shown.expand(2, 3, -1, -1), "numbers": biases}


@pytest.mark.parametrize("which", masks(1, 1))
@pytest.mark.parametrize(("length", "keys"), [(1, 9), (7, 7), (5, 12)])
def test_agrees_with_the_reference(which: str, length: int, keys: int):
    q = torch.randn(2, 3, length, 4, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 3, keys, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = masks(length, keys)[which]
    y, expected = masked_attention(q, k, v, mask), masked_attention_reference(q, k, v, mask)
    torch.testing.assert_close(y, expected)
    upstream = torch.randn_like(y)
    grads = torch.autograd.grad(y, (q, k, v), upstream)
    torch.testing.assert_close(grads, torch.autograd.grad(expected, (q, k, v), upstream))


def test_a_hidden_key_has_no_say():
    q, k, v = torch.randn(3, 1, 1, 4, 2)
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    other = v.clone()
    other[:, :, 3] += 5
    with kernels("reference") as choice:
        torch.testing.assert_close(
            masked_attention(q, k, v, mask)[:, :, :3], masked_attention(q, k, other, mask)[:, :, :3]
        )
    assert choice.record() == {"masked_attention": "reference"}
