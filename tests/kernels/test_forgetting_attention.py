"""Forgetting attention in chunks against one query after another."""

import pytest
import torch
from torch import Tensor

from zoo.kernels.forgetting_attention import forgetting_attention, forgetting_attention_reference

F64 = torch.float64


def inputs(length: int, past: int, groups: int = 1) -> list[Tensor]:
    q, k, v = (torch.randn(2, n, s, 5, dtype=F64) for n, s in ((2, length), *((groups, past + length),) * 2))
    log_gate = torch.nn.functional.logsigmoid(2 * torch.randn(2, 2, length, dtype=F64))
    decay = -10 * torch.rand(2, 2, past, dtype=F64)
    return [part.requires_grad_() for part in (q, k, v, log_gate, decay)]


@pytest.mark.parametrize("length", [1, 37, 127, 128, 129, 300])
@pytest.mark.parametrize("past", [0, 1, 150])
def test_agrees_with_the_reference(length: int, past: int):
    given = inputs(length, past, groups=1 + length % 2)
    got, want = forgetting_attention(*given), forgetting_attention_reference(*given)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    upstream = [torch.randn_like(part) for part in want]
    grads = (torch.autograd.grad(pair, given, upstream) for pair in (got, want))
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_what_was_forgotten_in_chunks_before_costs_no_precision():
    """Gates of e^-300 first: from one running sum in float32 later biases would be off by 0.03."""
    given = inputs(1500, 0)
    given[3][..., :1000] = -300
    exact = forgetting_attention(*given)[0]
    single = forgetting_attention(*(part.float() for part in given))[0]
    torch.testing.assert_close(single[:, :, 1024:].double(), exact[:, :, 1024:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate", [-1.0, -3000.0, -1e4])
def test_strong_gates_lose_no_digits_in_single_precision(gate: float):
    """As differences of sums in float32, outputs were off by 7e-4 and gradients by 5e-2."""
    given = inputs(200, 30)
    given[3] = gate * torch.rand(2, 2, 200, dtype=F64)
    given = [part.detach().float().double().requires_grad_() for part in given]
    single = [part.detach().float().requires_grad_() for part in given]
    want, got = forgetting_attention_reference(*given)[0], forgetting_attention(*single)[0]
    upstream = torch.randn_like(want)
    grads = torch.autograd.grad(want, given, upstream), torch.autograd.grad(got, single, upstream.float())
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-6)
    for ours, exact in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)
