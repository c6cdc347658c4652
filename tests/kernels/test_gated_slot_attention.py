"""Gated slot attention: the two passes in chunks against the written-out recurrence."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from zoo.kernels.gated_slot_attention import (
    gated_slot_attention,
    gated_slot_attention_chunked,
    gated_slot_attention_reference,
)


def draw(length: int, strongest: float = 1.0) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
    """q, k, v, write, log_decay, and first slots."""
    B, H, K, V, M = 2, 3, 5, 7, 4
    sizes = [(B, H, length, n) for n in (K, K, V, M, M)] + [(B, H, M, K), (B, H, M, V)]
    *inputs, keys, values = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes)
    inputs[4] = (-strongest * torch.rand_like(inputs[4])).requires_grad_()
    return inputs, (keys, values)


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("strongest", [1.0, 80.0])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 31, 50])
def test_chunks_agree_with_the_reference(length: int, strongest: float, with_state: bool):
    inputs, state = draw(length, strongest)
    inputs.append(state if with_state else None)
    got = tree_leaves(gated_slot_attention_chunked(*inputs))
    want = tree_leaves(gated_slot_attention_reference(*inputs))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
    of = [s for s in tree_leaves(inputs) if s is not None]
    grads = [torch.autograd.grad(sum(s.sin().sum() for s in out), of) for out in (got, want)]
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-11)


def test_full_slots_of_their_own_are_softmax_attention():
    """Token t writes slot t alone and nothing is forgotten: attention, but that empty slots have logit 0."""
    q, k, v = (torch.randn(1, 2, 20, 6, dtype=torch.float64) for _ in range(3))
    write = torch.eye(20, dtype=torch.float64).expand(1, 2, 20, 20)
    y, _ = gated_slot_attention(q, k, v, write, torch.zeros_like(write))
    weights = (q @ k.mT).tril().softmax(-1).tril()
    torch.testing.assert_close(y, weights @ v, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 37])
def test_a_stack_of_members_is_as_each_alone(length: int):
    members = [[s.detach() for s in draw(length)[0]] for _ in range(2)]
    together = torch.vmap(gated_slot_attention)(*(torch.stack(pair) for pair in zip(*members, strict=True)))
    for i, member in enumerate(members):
        alone = tree_leaves(gated_slot_attention(*member))
        torch.testing.assert_close([s[i] for s in tree_leaves(together)], alone, rtol=1e-12, atol=1e-12)
