"""Adapters of other packages' kernels, with stand-ins of their signatures: layouts, scales, windows, dtypes.

A stand-in computes what the package's documentation says, in its layout and with its defaults.
"""

import inspect
import sys
import warnings
from collections.abc import Callable
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels import cases
from tests.kernels.agreement import as_near_as_torch, members_as_alone
from tests.kernels.cases import BOTH, Form, Inputs, definition, op_of, single
from zoo.kernels.common.packages import untrained_gates
from zoo.kernels.selective_scan.mamba_ssm import selective_scan_mamba_ssm


def heads_first(*tensors: Tensor) -> list[Tensor]:
    return [x.transpose(1, 2) for x in tensors]


def flash_attn_func(q, k, v, *, causal=False, window_size=(-1, -1), alibi_slopes=None, deterministic=False):
    """[B T H C]; a query sees window_size[0] keys before its own and window_size[1] after; bottom right."""
    assert not deterministic
    assert alibi_slopes is None or alibi_slopes.dtype == torch.float32
    q, k, v = heads_first(q, k, v)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    i = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    j = torch.arange(k.shape[2])
    left, right = (k.shape[2] if side < 0 else side for side in window_size)
    visible = (j >= i - left) & (j <= i + (0 if causal else right))
    logits = q @ k.mT * q.shape[-1] ** -0.5
    if alibi_slopes is not None:
        logits = logits - alibi_slopes[:, None, None] * (i - j).abs()
    return (logits.masked_fill(~visible, -torch.inf).softmax(-1) @ v).transpose(1, 2)


class WithoutItsGradient(torch.autograd.Function):
    """y and the last state of the scan; as in the package, the state's gradient is dropped."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore
        return y.clone(), h.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dh: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        return dy, None


def selective_scan_fn(
    u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False
):
    """u, delta [B D T], B and C [B N T]."""
    assert D is z is delta_bias is None and not delta_softplus and return_last_state
    assert u.dtype == delta.dtype == B.dtype == C.dtype and A.dtype == torch.float32
    assert all(x.stride(-1) == 1 for x in (u, delta, B, C))
    y, h = definition("selective_scan")(*heads_first(u, delta), A, *heads_first(B, C))
    return WithoutItsGradient.apply(y.transpose(1, 2), h)  # pyright: ignore


def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False):
    """[B T H C]; g a decay for each channel of the keys."""
    assert q.shape == k.shape == g.shape and output_final_state
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    y, last = definition("gated_linear_attention")(*heads_first(q, k, v, g), initial_state)
    return y.transpose(1, 2), last


def chunk_simple_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False):
    """g: one decay a head."""
    assert g.shape == q.shape[:3]
    g = g[..., None].expand(q.shape)
    return chunk_gla(q, k, v, g, scale, initial_state, output_final_state)


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False):
    assert q.dtype == k.dtype == v.dtype == torch.bfloat16 and output_final_state
    assert initial_state is None or initial_state.dtype == torch.float32
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    wide = [x.float() for x in heads_first(q, k, v, beta, g)]
    y, last = definition("delta_rule")(*wide, initial_state)
    return y.transpose(1, 2).to(v.dtype), last


def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False):
    none = torch.zeros_like(beta)
    return chunk_gated_delta_rule(q, k, v, none, beta, scale, initial_state, output_final_state)


def chunk_linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False, normalize=True):
    assert output_final_state and not normalize
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    y, last, _ = definition("linear_attention")(*heads_first(q, k, v), None, initial_state, None)
    return y.transpose(1, 2), last


def causal_conv1d(
    x,
    weight=None,
    bias=None,
    residual=None,
    initial_state=None,
    output_final_state=False,
    activation=None,
    backend="triton",
):
    """x [B T D]; weight [D W], its last acts on the present; initial_state [B D W], its first is not read."""
    assert weight is not None and residual is activation is None and not output_final_state
    assert initial_state is None or initial_state.shape[-1] == weight.shape[-1]
    past = F.pad(x.mT, (weight.shape[-1] - 1, 0))
    if initial_state is not None:
        past = torch.cat([initial_state[..., 1:], x.mT], -1)
    return F.conv1d(past, weight[:, None], bias, groups=len(weight)).mT, None


STAND_INS: dict[str, Callable[..., Any]] = {
    "flash_attn": flash_attn_func,
    "mamba_ssm.ops.selective_scan_interface": selective_scan_fn,
    "fla.ops.gla": chunk_gla,
    "fla.ops.simple_gla": chunk_simple_gla,
    "fla.ops.delta_rule": chunk_delta_rule,
    "fla.ops.gated_delta_rule": chunk_gated_delta_rule,
    "fla.ops.linear_attn": chunk_linear_attn,
    "fla.modules.convolution": causal_conv1d,
}


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STAND_INS:
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(parts[i - 1]))
    for name, function in STAND_INS.items():
        setattr(sys.modules[name], function.__name__, function)


@pytest.mark.parametrize("name", [name for name in STAND_INS if name.startswith("fla.")])
def test_the_installed_package_has_these_signatures(name: str):
    pytest.importorskip("triton")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that there is no device
        module = pytest.importorskip(name)
    function = STAND_INS[name]
    theirs = inspect.signature(getattr(module, function.__name__)).parameters
    for parameter in inspect.signature(function).parameters.values():
        default = theirs[parameter.name].default
        assert default == parameter.default or parameter.default is inspect.Parameter.empty


def both(op: str, package: str) -> tuple[Form, Form]:
    """The adapter and the definition; mamba-ssm drops the gradient of the last state, so neither has it."""
    forms = op_of(op).implementation(package), definition(op)
    if package != "mamba_ssm":
        return forms
    return tuple(lambda *inputs, form=form: ((y := form(*inputs))[0], y[1].detach()) for form in forms)


WINDOWS = [(9, 9, None), (9, 9, 3), (5, 12, 4), (1, 8, None), (6, 6, 1)]
CALLS: list[tuple[str, str, Inputs]] = [
    *(("attention", "flash_attn", cases.attention(*shape, biased))
      for shape, biased in product(WINDOWS, BOTH)),
    *(("selective_scan", "mamba_ssm", cases.selective_scan(2, 7, 6, 4, state)) for state in BOTH),
    *(("gated_linear_attention", "fla", cases.gated_linear_attention(9, per, 1.0, state))
      for per, state in product(("head", "channel"), BOTH)),
    *(("linear_attention", "fla", cases.linear_attention(9, eps, state))
      for eps, state in product((None, 0.25), BOTH)),
    *(("short_conv", "fla", cases.short_conv(length, 4, biased, state))
      for length, biased, state in product((1, 9), BOTH, BOTH)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "package", "inputs"), CALLS)
def test_an_adapter_gives_what_the_definition_does(stand_ins: None, op: str, package: str, inputs: Inputs):
    as_near_as_torch(*both(op, package), single(inputs))


@pytest.mark.parametrize(("decayed", "state"), [*product(BOTH, BOTH)])
def test_delta_rule_by_fla(stand_ins: None, decayed: bool, state: bool):
    """fla's delta rule agrees to the precision of bfloat16, in which it makes its products."""
    inputs = single(cases.delta_rule(9, decayed, state))
    for ours, theirs in zip(*(form(*inputs) for form in both("delta_rule", "fla")), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


def test_mamba_ssm_in_mixed_dtypes_computes_in_float32(stand_ins: None):
    x, dt, A, B, C = (t.detach().float() for t in cases.selective_scan(2, 7, 6, 4, False)[:5])
    x, B, C = (t.bfloat16() for t in (x, B, C))
    y, _ = selective_scan_mamba_ssm(x, dt, A, B, C)
    exact, _ = definition("selective_scan")(*(t.double() for t in (x, dt, A, B, C)))
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=1e-5)


def test_the_gradient_that_mamba_ssm_drops_is_an_error(stand_ins: None):
    y, last = selective_scan_mamba_ssm(*single(cases.selective_scan(2, 7, 6, 4)))
    y.sum().backward(retain_graph=True)
    with pytest.raises(ValueError, match="no gradient of the last state"):
        last.sum().backward()


@pytest.mark.parametrize(
    ("op", "package", "inputs", "in_dims"),
    [
        ("attention", "flash_attn", cases.attention(9, 9, 3, True), (0, 0, 0, None, None)),
        ("selective_scan", "mamba_ssm", cases.selective_scan(2, 7, 6, 4), (0, 0, 0, None, 0, 0)),
        ("selective_scan", "mamba_ssm", cases.selective_scan(2, 7, 6, 4), (0, 2, None, 0, None, 0)),  # one A
        *(
            ("short_conv", "fla", cases.short_conv(9, 4, True, True), in_dims)  # more channels
            for in_dims in ((0, 0, 0, 0), (0, None, 1, 2), (None, 2, None, None))
        ),
        ("linear_attention", "fla", cases.linear_attention(9, 0.25, False), (0, 0, 1, None, None, None)),
    ],
)
def test_stacked_members_run_as_each_alone(
    stand_ins: None, op: str, package: str, inputs: Inputs, in_dims: tuple[int | None, ...]
):
    members_as_alone(both(op, package)[0], single(inputs), in_dims)


QKV, HALF = [torch.zeros(1, 1, 2, 8)] * 3, [torch.zeros(1, 1, 2, 264).half()] * 3
TWO, FOUR = torch.zeros(1, 2, 4), torch.zeros(4, 4)


@pytest.mark.parametrize(
    ("op", "package", "inputs", "reason"),
    [
        ("attention", "flash_attn", QKV, "takes bfloat16 or float16, and gets float32"),
        ("attention", "flash_attn", HALF, "head_dim (=264) must be at most 256"),
        ("attention", "flash_attn", [x.bfloat16() for x in QKV], "the tensors are on cpu"),
        ("delta_rule", "fla", [*(torch.zeros(1, 1, n, 4) for n in (2, 6, 6)), torch.zeros(1, 1, 6)],
         "one write a query is all that fla's chunks take, and there are 3"),
        ("linear_attention", "fla", [*(x.double() for x in QKV), None], "a tensor is torch.float64"),
        ("linear_attention", "fla", [*QKV, None], "the tensors are on cpu"),
        ("short_conv", "fla", [TWO, FOUR.double()], "a tensor is torch.float64"),
        ("short_conv", "fla", [TWO, FOUR], "the tensors are on cpu"),
    ],
)  # fmt: skip
def test_a_refusal_names_what_the_package_cannot_take(op: str, package: str, inputs: Inputs, reason: str):
    assert reason in (op_of(op).module(package).unfit(*inputs) or "")


def test_gradients_that_fla_gets_wrong_are_refused_before_it_is_tuned(monkeypatch: pytest.MonkeyPatch):
    module = ModuleType("fla.ops.common.chunk_o")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    trained, given = (SimpleNamespace(is_cuda=True, requires_grad=x) for x in (True, False))
    for hopper, old, new in product(BOTH, BOTH, BOTH):
        vars(module).update(IS_NVIDIA_HOPPER=hopper, TRITON_ABOVE_3_4_0=old, TRITON_ABOVE_3_7_1=new)
        assert bool(untrained_gates(trained)) == (hopper and old and not new)  # pyright: ignore
        assert untrained_gates(given) is None  # pyright: ignore
