"""Gated linear attention: the chunks against the written-out recurrence, values, gradients and states."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.kernels.common.precision import narrowest, wide
from zoo.kernels.gated_linear_attention import (
    OP,
    gated_linear_attention,
    gated_linear_attention_chunked,
    gated_linear_attention_reference,
)
from zoo.mixers import HGRN2, MLSTM, GatedLinearAttention, LightningAttention, RetNet
from zoo.mixers.base import Mixer

PER = pytest.mark.parametrize("per", ["head", "channel"])


def draw(length: int, per: str, strongest: float = 1.0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """q, k, v, log_decay and a first state; decays between exp(-strongest) and 1."""
    B, H, K, V = 2, 3, 5, 7
    shapes = [(B, H, length, K), (B, H, length, K), (B, H, length, V), (B, H, K, V)]
    q, k, v, state = (torch.randn(shape, dtype=dtype) for shape in shapes)
    log_decay = -strongest * torch.rand(
        (B, H, length, K) if per == "channel" else (B, H, length), dtype=dtype
    )
    return [s.requires_grad_() for s in (q, k, v, log_decay, state)]


def loss(y: Tensor, state: Tensor) -> Tensor:
    return (y.sin() * torch.arange(y[0].numel(), dtype=y.dtype).view_as(y[0]).cos()).sum() + state.cos().sum()


@PER
def test_the_reference_is_the_recurrence_scalar_by_scalar(per: str):
    q, k, v, log_decay, state = (s.detach() for s in draw(3, per))
    y, last = gated_linear_attention_reference(q, k, v, log_decay, state)
    B, H, T, K = q.shape
    for b, h, c, e in [(b, h, c, e) for b in range(B) for h in range(H) for c in range(K) for e in range(7)]:
        s = state[b, h, c, e]
        for t in range(T):
            g = log_decay[b, h, t] if per == "head" else log_decay[b, h, t, c]
            s = torch.exp(g) * s + k[b, h, t, c] * v[b, h, t, e]
            y[b, h, t, e] -= q[b, h, t, c] * s
        last[b, h, c, e] -= s
    assert y.abs().max() < 1e-13
    assert last.abs().max() < 1e-13


@PER
@pytest.mark.parametrize("strongest", [1.0, 80.0])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 47, 63, 64, 65, 150])
@pytest.mark.parametrize("with_state", [False, True])
def test_chunks_agree_with_the_reference(length: int, per: str, strongest: float, with_state: bool):
    *inputs, state = draw(length, per, strongest)
    if with_state:
        inputs.append(state)
    got, want = gated_linear_attention_chunked(*inputs), gated_linear_attention_reference(*inputs)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
    grads = torch.autograd.grad(loss(*got), inputs), torch.autograd.grad(loss(*want), inputs)
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-11)


@PER
def test_strong_decays_lose_no_digits_in_single_precision(per: str):
    """Differences of running sums would: after 64 steps of -40 the sum is known to 1e-4 only."""
    inputs = draw(256, per, strongest=0.01, dtype=torch.float32)
    strong = torch.rand_like(inputs[3]) < 0.3
    inputs[3] = torch.where(strong, -40.0, inputs[3]).detach().requires_grad_()
    y, last = gated_linear_attention(*inputs)
    exact = gated_linear_attention_reference(*(s.double() for s in inputs))
    assert (y - exact[0]).abs().max() < 1e-6 * exact[0].abs().max()
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss(y, last), inputs))


@PER
def test_going_on_from_a_state_is_the_whole(per: str):
    *inputs, _ = (s.detach() for s in draw(150, per))
    whole, last = gated_linear_attention(*inputs)
    ys, state = [], None
    for piece in zip(*(s.split([1, 16, 17, 1, 64, 51], dim=2) for s in inputs), strict=True):
        y, state = gated_linear_attention(*piece, state)
        ys.append(y)
    torch.testing.assert_close(torch.cat(ys, dim=2), whole, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(state, last, rtol=1e-10, atol=1e-11)


@PER
@pytest.mark.parametrize("length", [1, 37])
def test_a_stack_of_members_is_as_each_alone(length: int, per: str):
    members = [[s.detach() for s in draw(length, per)] for _ in range(2)]
    together = torch.vmap(gated_linear_attention)(*(torch.stack(pair) for pair in zip(*members, strict=True)))
    for i, member in enumerate(members):
        alone = gated_linear_attention(*member)
        torch.testing.assert_close([s[i] for s in together], list(alone), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [GatedLinearAttention, HGRN2, LightningAttention, MLSTM, RetNet])
def test_mixers_leave_half_precision_to_the_op(kind: Callable[..., Mixer], monkeypatch: pytest.MonkeyPatch):
    """It widens them for torch, and need not for a kernel; log decays, which add up, come in float32."""
    dtypes = []

    def prepare(x: Any) -> Any:
        dtypes.append(x.dtype if isinstance(x, Tensor) else None)
        return wide(x)

    monkeypatch.setattr(OP, "prepare", prepare)
    with torch.autocast("cpu", torch.bfloat16):
        kind(d_model=16, num_heads=2)(torch.randn(1, 20, 16))
    _, _, v, log_decay, _ = dtypes
    assert (v, log_decay) == (torch.bfloat16, torch.float32)


def test_factors_of_one_product_meet_in_the_narrowest_dtype():
    x, y = torch.ones(2), torch.ones(2, dtype=torch.bfloat16)
    assert [s.dtype for s in narrowest(x, y, x)] == [torch.bfloat16] * 3
    assert narrowest(x, x)[0] is x
