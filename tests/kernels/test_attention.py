"""Attention on a CPU: the kernels of torch that it runs through, bands of narrow windows, and the matrices
of weights that train bfloat16."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import as_definition, members_as_alone
from tests.kernels.cases import BANDED, draw, trained
from tests.kernels.cases import attention as inputs_of
from zoo.kernels.attention import attention, dense
from zoo.kernels.attention import sdpa as fused
from zoo.kernels.attention.dense import attention_dense
from zoo.kernels.attention.reference import attention_reference
from zoo.mixers.positions import alibi_slopes


@pytest.mark.parametrize(("length", "num_keys", "window"), BANDED)
def test_long_narrow_windows_are_banded(monkeypatch, length: int, num_keys: int, window: int):
    banded = []
    monkeypatch.setattr(fused, "_banded", lambda q, *rest: banded.append(True) or q)
    fused.attention_sdpa(*inputs_of(length, num_keys, window))
    assert banded


def test_half_precision_stays_half():
    q, k, v = (x.detach().bfloat16() for x in inputs_of(140, 140, 5)[:3])
    y = attention(q, k, v, 5, alibi_slopes(4))
    assert y.dtype == torch.bfloat16
    exact = attention_reference(q.double(), k.double(), v.double(), 5, alibi_slopes(4))
    torch.testing.assert_close(y.double(), exact, atol=0.03, rtol=0.03)


@pytest.mark.parametrize(
    ("length", "window", "biased"), [(30, None, False), (30, 5, True), (150, 5, False), (150, 9, True)]
)
def test_runs_through_the_fused_kernel(length: int, window: int | None, biased: bool):
    """A mask of a shape that it does not know sends torch to a path several times slower, without a word."""
    q, k, v = (x.detach().float() for x in inputs_of(length, length, window)[:3])
    with torch.profiler.profile(acc_events=True) as profile:
        attention(q, k, v, window, alibi_slopes(4) if biased else None)
    called = {event.key for event in profile.key_averages()}
    assert any("flash_attention_for_cpu" in name for name in called), sorted(called)


@pytest.mark.parametrize("at_once", [1, 2**18])
@pytest.mark.parametrize(
    ("length", "keys", "form"),
    [
        (5, 5, "causal"),
        (64, 64, "causal"),
        (131, 131, "causal"),
        (7, 12, "mask"),
        (7, 12, "heads"),
        (4, 9, "all"),
    ],
)
def test_attention_by_matrices_agrees_with_torch_in_float64(
    monkeypatch, at_once: int, length: int, keys: int, form: str
):
    monkeypatch.setattr(dense, "AT_ONCE", at_once)
    shape = {"mask": (1, 1, length, keys), "heads": (2, 3, length, keys)}.get(form)
    mask = None if shape is None else (torch.rand(shape) < 0.5) | (torch.arange(keys) == 0)
    ours = partial(attention_dense, mask=mask, is_causal=form == "causal")
    wanted = partial(F.scaled_dot_product_attention, attn_mask=mask, is_causal=form == "causal")
    as_definition(ours, wanted, trained(*draw([2, 3, length, 6], [2, 3, keys, 6], [2, 3, keys, 5])))


def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    calls: list[bool] = []
    monkeypatch.setattr(fused, "attention_dense", lambda *x: calls.append(True) or attention_dense(*x))
    return calls


@pytest.mark.parametrize("window", [None, 9, 40])
def test_training_in_bfloat16_takes_them_and_is_nearly_as_exact_as_torch(monkeypatch, window: int | None):
    """Torch's fused kernel keeps dp in float32, which costs it its speed."""
    q, k, v = (x.detach().bfloat16().requires_grad_() for x in torch.randn(3, 2, 2, 150, 16))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    upstream = torch.randn(2, 2, 150, 16)

    def results(function, inputs: list[Tensor]) -> list[Tensor]:
        y = function(*inputs, window, None)
        return [y.detach(), *torch.autograd.grad(y, inputs, upstream.to(y))]

    exact = results(attention_reference, wide)
    monkeypatch.setattr(fused, "dense_is_quicker", lambda *_: False)
    theirs = results(attention, [q, k, v])
    monkeypatch.undo()
    calls = taken(monkeypatch)
    with torch.autocast("cpu", torch.bfloat16):
        ours = results(attention, [q, k, v])
    assert calls
    for mine, other, true in zip(ours, theirs, exact, strict=True):
        assert (mine - true).norm() <= 1.4 * (other - true).norm()


def test_all_other_inputs_go_through_torch(monkeypatch):
    calls = taken(monkeypatch)
    q, k, v = torch.randn(3, 1, 2, 30, 8).requires_grad_()
    attention(q, k, v)
    with torch.no_grad():
        attention(q.bfloat16(), k.bfloat16(), v.bfloat16())
    attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), None, alibi_slopes(2))  # a mask of numbers
    monkeypatch.setattr(dense, "MOST", 100)
    attention(q.bfloat16(), k.bfloat16(), v.bfloat16())
    assert not calls


def test_members_of_a_stack_are_more_of_the_batch():
    members_as_alone(attention, [*torch.randn(3, 2, 2, 70, 8).bfloat16().requires_grad_()], (0, 0, 0))
