"""The fused and banded attention against the written-out one, forward and backward."""

import pytest
import torch
from torch import Tensor

from zoo.kernels.attention import attention, attention_reference
from zoo.kernels.attention import sdpa as fused
from zoo.mixers.positions import alibi_slopes


def qkv(length: int, num_keys: int, heads: int = 4, shared: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    q = torch.randn(2, heads, length, 6, dtype=torch.float64)
    k, v = torch.randn(2, 2, heads // shared, num_keys, 6, dtype=torch.float64)
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


SHAPES = [(1, 1, None), (1, 30, 7), (37, 37, None), (37, 50, 9), (37, 40, 50), (5, 40, 1)]
BANDED = [(128, 128, 5), (150, 150, 16), (150, 163, 14), (200, 200, 33), (131, 131, 1), (300, 331, 32)]


@pytest.mark.parametrize(("length", "num_keys", "window"), SHAPES + BANDED)
@pytest.mark.parametrize("biased", [False, True])
def test_agrees_with_the_reference(length: int, num_keys: int, window: int | None, biased: bool):
    inputs = qkv(length, num_keys)
    slopes = alibi_slopes(4) if biased else None
    y, expected = attention(*inputs, window, slopes), attention_reference(*inputs, window, slopes)
    torch.testing.assert_close(y, expected)
    upstream = torch.randn_like(y)
    grads = torch.autograd.grad(y, inputs, upstream)
    torch.testing.assert_close(grads, torch.autograd.grad(expected, inputs, upstream))


@pytest.mark.parametrize(("length", "num_keys", "window"), BANDED)
def test_long_narrow_windows_are_banded(monkeypatch, length: int, num_keys: int, window: int):
    banded = []
    monkeypatch.setattr(fused, "_banded", lambda q, *rest: banded.append(True) or q)
    fused.attention_sdpa(*qkv(length, num_keys), window)
    assert banded


@pytest.mark.parametrize(("length", "window"), [(9, None), (9, 3), (130, 6)])
@pytest.mark.parametrize("stack_slopes", [None, False, True])
def test_a_stack_of_members_is_lifted_without_a_loop(
    length: int, window: int | None, stack_slopes: bool | None
):
    q, k, v = (torch.stack([x, 2 * x]).detach() for x in qkv(length, length))
    slopes = None if stack_slopes is None else alibi_slopes(4)
    if stack_slopes:
        slopes = torch.stack([alibi_slopes(4), alibi_slopes(4) / 2])
    dims = (0, 0, 0, None, 0 if stack_slopes else None)
    y = torch.vmap(attention, in_dims=dims)(q, k, v, window, slopes)  # a loop would warn, and warnings fail
    for i in range(2):
        own = slopes[i] if stack_slopes else slopes
        torch.testing.assert_close(y[i], attention_reference(q[i], k[i], v[i], window, own))


def test_half_precision_stays_half():
    q, k, v = (x.detach().bfloat16() for x in qkv(140, 140))
    y = attention(q, k, v, 5, alibi_slopes(4))
    assert y.dtype == torch.bfloat16
    exact = attention_reference(q.double(), k.double(), v.double(), 5, alibi_slopes(4))
    torch.testing.assert_close(y.double(), exact, atol=0.03, rtol=0.03)


@pytest.mark.parametrize(
    ("length", "window", "biased"), [(30, None, False), (30, 5, True), (150, 5, False), (150, 9, True)]
)
def test_runs_through_the_fused_kernel(length: int, window: int | None, biased: bool):
    """A mask of a shape that it does not know sends torch to a path several times slower, without a word."""
    q, k, v = (x.detach().float() for x in qkv(length, length))
    with torch.profiler.profile(acc_events=True) as profile:
        attention(q, k, v, window, alibi_slopes(4) if biased else None)
    called = {event.key for event in profile.key_averages()}
    assert any("flash_attention_for_cpu" in name for name in called), sorted(called)
