"""Strong decays, long sequences and half precision lose no more digits than they must."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from tests.kernels import cases
from tests.kernels.cases import Inputs, definition, op_of, public, single
from zoo.kernels.choice import kernels
from zoo.kernels.common.precision import narrowest, wide
from zoo.mixers import HGRN2, MLSTM, GatedLinearAttention, LightningAttention, RetNet
from zoo.mixers.base import Mixer


def cast(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """The same numbers in another dtype, nested ones too."""
    return tree_map(lambda x: x.detach().to(dtype) if isinstance(x, Tensor) else x, inputs)


def finite(op: Callable[..., Any], inputs: Inputs) -> list[Tensor]:
    """The outputs in single precision: neither they nor a gradient is infinite or NaN."""
    given = single(inputs)
    outputs = [y for y in tree_leaves(op(*given)) if isinstance(y, Tensor)]
    wanted = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    grads = torch.autograd.grad(sum(y.mean() for y in outputs), wanted, materialize_grads=True)
    assert all(x.isfinite().all() for x in (*outputs, *grads))
    return outputs


LONG: list[tuple[str, Inputs]] = [
    *(("delta_rule", cases.delta_rule(1024, True, True, 1, strength)) for strength in (0.0, 1.0, 1e4)),
    *(("dplr_delta_rule", cases.dplr_delta_rule(2048, strength, True)) for strength in (0.001, 1, 1e4)),
    ("selective_scan", [100 * x.detach() for x in cases.selective_scan(1, 4096, 2, 4)[:5]]),
    *(("wkv4", cases.wkv4(4096, False, scale)[:4]) for scale in (1, 100)),
]


@pytest.mark.parametrize(("op", "inputs"), LONG, ids=lambda x: x if isinstance(x, str) else "")
def test_long_sequences_stay_finite_in_single_precision(op: str, inputs: Inputs):
    y, *_ = finite(public(op), inputs)
    if op == "wkv4":
        assert y.abs().max() <= inputs[1].abs().max() * 1.001, "an average lies among the values"


@pytest.mark.parametrize("strength", [0.0, 1.0, 1e4])
def test_no_decay_is_too_strong_or_too_weak_for_the_delta_rule(strength: float):
    inputs = cast(cases.delta_rule(1024, True, True, 1, strength), torch.float32)
    true, _ = definition("delta_rule")(*cast(inputs, torch.float64))
    y, _ = op_of("delta_rule").forms["chunked"](*inputs)
    torch.testing.assert_close(y.double(), true, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("per", ["head", "channel"])
def test_strong_decays_lose_no_digits(per: str):
    """Differences of running sums would: after 64 steps of -40 the sum is known to 1e-4 only."""
    inputs = cast(cases.gated_linear_attention(256, per, 0.01, True), torch.float32)
    inputs[3] = torch.where(torch.rand_like(inputs[3]) < 0.3, -40.0, inputs[3])
    y, _ = finite(public("gated_linear_attention"), inputs)
    exact, _ = definition("gated_linear_attention")(*cast(inputs, torch.float64))
    assert (y - exact).abs().max() < 1e-6 * exact.abs().max()


@torch.no_grad()
def test_strong_gates_of_earlier_chunks_cost_no_precision():
    """Gates of e^-300 first: from one running sum in float32 later biases would be off by 0.03."""
    given = cases.forgetting_attention(1500, 0)
    given[3][..., :1000] = -300
    exact = public("forgetting_attention")(*given)[0]
    actual = public("forgetting_attention")(*cast(given, torch.float32))[0]
    torch.testing.assert_close(actual[:, :, 1024:].double(), exact[:, :, 1024:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate", [-1.0, -3000.0, -1e4])
def test_strong_gates_lose_no_digits(gate: float):
    """Differences of sums in float32 put outputs off by 7e-4 and gradients by 5e-2."""
    given = cases.forgetting_attention(200, 30)
    given[3] = gate * torch.rand(2, 2, 200, dtype=torch.float64)
    few = single(given)
    given = [x.detach().double().requires_grad_() for x in few]
    want, got = definition("forgetting_attention")(*given)[0], public("forgetting_attention")(*few)[0]
    upstream = torch.randn_like(want)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-6)
    grads = torch.autograd.grad(got, few, upstream.float()), torch.autograd.grad(want, given, upstream)
    for ours, exact in zip(*grads, strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


def test_mesa_stays_close_where_keys_repeat():
    """1,024 equal keys without decay: the matrix's condition number is a thousand times that of one key."""
    q, k, v, beta, decay, ridge = (x.detach() for x in cases.mesa(1024, False))
    k = F.normalize(k[:, :, :1], dim=-1).expand_as(k)
    inputs = [q, k, v, beta, torch.zeros_like(decay), ridge]
    y, *_ = finite(op_of("mesa").forms["solved"], inputs)
    torch.testing.assert_close(y.double(), definition("mesa")(*inputs)[0], rtol=1e-3, atol=1e-3)


HALF: list[tuple[str, Inputs]] = [
    ("delta_rule", cases.delta_rule(34, True, True)),
    ("wkv6", cases.wkv6(40, 1.0, False)),
    ("ttt", cases.ttt(9, [7], 0)),
    ("taylor_scan", cases.taylor_scan(9, False)),
]


@pytest.mark.parametrize(("op", "inputs"), HALF, ids=lambda x: x if isinstance(x, str) else "")
def test_half_precision_inputs_are_added_up_in_single_precision(op: str, inputs: Inputs):
    half = cast(inputs, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=op != "taylor_scan"):
        actual = tree_leaves(public(op)(*half))
    exact = tree_leaves(public(op)(*cast(half, torch.float64)))
    for y, true in zip(actual, exact, strict=True):
        if y is not None:
            assert y.dtype == torch.float32
            torch.testing.assert_close(y.double(), true, rtol=1e-3, atol=1e-3)
    with kernels("reference"):
        assert tree_leaves(public(op)(*half))[0].dtype == torch.float32


def test_a_scan_in_half_precision_is_single_precision_between():
    x, dt, A, b, c, h = cases.selective_scan(2, 40, 3, 4)
    half = cast([x, dt, b, c], torch.bfloat16)
    y, last = public("selective_scan")(*half[:2], A.float(), *half[2:], h.float())
    assert (y.dtype, last.dtype) == (torch.bfloat16, torch.float32)
    wider = cast(half, torch.float64)
    exact, _ = public("selective_scan")(*wider[:2], A, *wider[2:], h)
    torch.testing.assert_close(y.double(), exact, rtol=0.03, atol=0.05)


def test_a_convolution_in_half_precision_keeps_its_dtype():
    u, k = cast(cases.fft_conv(2, 100, 3, 100), torch.bfloat16)
    y = public("fft_conv")(u, k)
    assert y.dtype == torch.bfloat16
    exact = definition("fft_conv")(u.double(), k.double())
    torch.testing.assert_close(y.double(), exact, rtol=0.02, atol=0.1)


@pytest.mark.parametrize("kind", [GatedLinearAttention, HGRN2, LightningAttention, MLSTM, RetNet])
def test_mixers_hand_the_op_half_precision(kind: Callable[..., Mixer], monkeypatch: pytest.MonkeyPatch):
    """The op widens them for torch, and need not for a kernel; log decays, which add up, are float32."""
    dtypes = []

    def prepare(x: Any) -> Any:
        dtypes.append(x.dtype if isinstance(x, Tensor) else None)
        return wide(x)

    monkeypatch.setattr(op_of("gated_linear_attention"), "prepare", prepare)
    with torch.autocast("cpu", torch.bfloat16):
        kind(d_model=16, num_heads=2)(torch.randn(1, 20, 16))
    _, _, v, log_decay, _ = dtypes
    assert (v, log_decay) == (torch.bfloat16, torch.float32)


def test_factors_of_one_product_meet_in_the_narrowest_dtype():
    x, y = torch.ones(2), torch.ones(2, dtype=torch.bfloat16)
    assert [s.dtype for s in narrowest(x, y, x)] == [torch.bfloat16] * 3
    assert narrowest(x, x)[0] is x
