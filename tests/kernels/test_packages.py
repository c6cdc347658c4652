"""Adapters of other packages' kernels, with stand-ins of their signatures: layouts, scales, windows, dtypes.

A stand-in computes what the package's documentation says, in its layout and with its defaults.
"""

import inspect
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, members_as_alone, results
from zoo.kernels.attention import attention_reference
from zoo.kernels.attention.flash_attn import attention_flash_attn
from zoo.kernels.attention.flash_attn import unfit as unfit_for_flash
from zoo.kernels.delta_rule import delta_rule_reference
from zoo.kernels.delta_rule.fla import delta_rule_fla
from zoo.kernels.delta_rule.fla import unfit as unfit_for_delta
from zoo.kernels.gated_linear_attention import gated_linear_attention_reference
from zoo.kernels.gated_linear_attention.fla import gated_linear_attention_fla
from zoo.kernels.linear_attention import linear_attention_reference
from zoo.kernels.linear_attention.fla import linear_attention_fla
from zoo.kernels.linear_attention.fla import unfit as unfit_for_linear
from zoo.kernels.selective_scan import selective_scan_reference
from zoo.kernels.selective_scan.mamba_ssm import selective_scan_mamba_ssm
from zoo.kernels.short_conv import short_conv_reference
from zoo.kernels.short_conv.fla import short_conv_fla
from zoo.kernels.short_conv.fla import unfit as unfit_for_conv
from zoo.kernels.taylor_attention import taylor_attention_reference
from zoo.kernels.taylor_attention.fla import EPS, taylor_attention_fla
from zoo.kernels.taylor_attention.fla import unfit as unfit_for_taylor
from zoo.mixers.positions import alibi_slopes

# stand-ins -------------------------------------------------------------------------------------------------


def heads_first(*tensors: Tensor) -> list[Tensor]:
    return [x.transpose(1, 2) for x in tensors]


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """[B T H C]; a query sees window_size[0] keys before its own and window_size[1] after; bottom right."""
    assert dropout_p == softcap == 0 and softmax_scale is None and not return_attn_probs and not deterministic
    assert alibi_slopes is None or alibi_slopes.dtype == torch.float32
    q, k, v = heads_first(q, k, v)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    i = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    j = torch.arange(k.shape[2])
    left, right = (k.shape[2] if side < 0 else side for side in window_size)
    seen = (j >= i - left) & (j <= i + (0 if causal else right))
    logits = q @ k.mT * q.shape[-1] ** -0.5
    if alibi_slopes is not None:
        logits = logits - alibi_slopes[:, None, None] * (i - j).abs()
    return (logits.masked_fill(~seen, -torch.inf).softmax(-1) @ v).transpose(1, 2)


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
    y, h = selective_scan_reference(*heads_first(u, delta), A, *heads_first(B, C))
    return WithoutItsGradient.apply(y.transpose(1, 2), h)  # pyright: ignore


def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False):
    """[B T H C]; g a decay for each channel of the keys."""
    assert q.shape == k.shape == g.shape and output_final_state
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    y, last = gated_linear_attention_reference(*heads_first(q, k, v, g), initial_state)
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
    y, last = delta_rule_reference(*wide, initial_state)
    return y.transpose(1, 2).to(v.dtype), last


def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False):
    none = torch.zeros_like(beta)
    return chunk_gated_delta_rule(q, k, v, none, beta, scale, initial_state, output_final_state)


def chunk_linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False, normalize=True):
    assert output_final_state and not normalize
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    y, last, _ = linear_attention_reference(*heads_first(q, k, v), None, initial_state, None)
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


def fused_chunk_based(q, k, v, scale=None, use_norm=True):
    assert q.shape[-1] <= 16 and scale is None and use_norm
    return taylor_attention_reference(*heads_first(q, k, v), EPS).transpose(1, 2)


def parallel_based(q, k, v, scale=None, use_norm=True):
    assert 16 < q.shape[-1] <= 128 and scale is None and use_norm
    return taylor_attention_reference(*heads_first(q, k, v), EPS).transpose(1, 2)


STAND_INS: dict[str, list[Callable[..., Any]]] = {
    "flash_attn": [flash_attn_func],
    "mamba_ssm.ops.selective_scan_interface": [selective_scan_fn],
    "fla.ops.gla": [chunk_gla],
    "fla.ops.simple_gla": [chunk_simple_gla],
    "fla.ops.delta_rule": [chunk_delta_rule],
    "fla.ops.gated_delta_rule": [chunk_gated_delta_rule],
    "fla.ops.linear_attn": [chunk_linear_attn],
    "fla.modules.convolution": [causal_conv1d],
    "fla.ops.based": [fused_chunk_based, parallel_based],
}


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STAND_INS:
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(parts[i - 1]))
    for name, functions in STAND_INS.items():
        for function in functions:
            setattr(sys.modules[name], function.__name__, function)


@pytest.mark.parametrize("name", [name for name in STAND_INS if name.startswith("fla.")])
def test_the_installed_package_has_these_signatures(name: str):
    pytest.importorskip("triton")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that there is no device
        module = pytest.importorskip(name)
    for function in STAND_INS[name]:
        theirs = inspect.signature(getattr(module, function.__name__)).parameters
        for parameter in inspect.signature(function).parameters.values():
            default = theirs[parameter.name].default
            assert default == parameter.default or parameter.default is inspect.Parameter.empty


# what the adapters make of them ----------------------------------------------------------------------------


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def wanting(*tensors: Tensor | None) -> list[Any]:
    return [x if x is None else x.detach().requires_grad_() for x in tensors]


@pytest.mark.parametrize("slopes", [None, alibi_slopes(4)], ids=["plain", "biased"])
@pytest.mark.parametrize(
    ("length", "keys", "window"), [(9, 9, None), (9, 9, 3), (5, 12, 4), (1, 8, None), (6, 6, 1)]
)
def test_flash_attn(stand_ins: None, length: int, keys: int, window: int | None, slopes: Tensor | None):
    q, k, v = wanting(random(2, 4, length, 8), random(2, 2, keys, 8), random(2, 2, keys, 8, seed=1))
    as_near_as_torch(attention_flash_attn, attention_reference, [q, k, v, window, slopes])


def scan_inputs(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    x, B, C = (random(2, 7, n, seed=n).to(dtype) for n in (6, 4, 4))
    dt, A = random(2, 7, 6, seed=5).sigmoid(), -random(6, 4).exp()
    return [x, dt.to(dtype), A, B, C]


def outputs_only(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: function(*inputs)[0]


@pytest.mark.parametrize("state", [None, random(2, 6, 4)], ids=["fresh", "going on"])
def test_mamba_ssm(stand_ins: None, state: Tensor | None):
    inputs = [*scan_inputs(), state]
    found, true = selective_scan_mamba_ssm(*inputs), selective_scan_reference(*inputs)
    torch.testing.assert_close(found, true)
    with_gradients = wanting(*inputs)
    as_near_as_torch(
        outputs_only(selective_scan_mamba_ssm), outputs_only(selective_scan_reference), with_gradients
    )


def test_mamba_ssm_in_mixed_dtypes_computes_in_float32(stand_ins: None):
    x, dt, A, B, C = scan_inputs(torch.bfloat16)
    y, _ = selective_scan_mamba_ssm(x, dt.float(), A, B, C)
    exact, _ = selective_scan_reference(*(t.double() for t in (x, dt, A, B, C)))
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=1e-5)


def test_the_gradient_that_mamba_ssm_drops_is_an_error(stand_ins: None):
    y, last = selective_scan_mamba_ssm(*wanting(*scan_inputs()))
    y.sum().backward(retain_graph=True)
    with pytest.raises(ValueError, match="no gradient of the last state"):
        last.sum().backward()


@pytest.mark.parametrize("state", [None, random(2, 3, 5, 4)], ids=["fresh", "going on"])
@pytest.mark.parametrize("each", [(), (5,)], ids=["a head", "a channel"])
def test_gated_linear_attention_by_fla(stand_ins: None, each: tuple[int, ...], state: Tensor | None):
    q, k, v = random(2, 3, 9, 5), random(2, 3, 9, 5, seed=1), random(2, 3, 9, 4)
    decay = -random(2, 3, 9, *each, seed=2).exp()
    inputs = wanting(q, k, v, decay, state)
    as_near_as_torch(gated_linear_attention_fla, gated_linear_attention_reference, inputs)


@pytest.mark.parametrize("state", [None, random(2, 3, 5, 4)], ids=["fresh", "going on"])
@pytest.mark.parametrize("decayed", [False, True])
def test_delta_rule_by_fla(stand_ins: None, decayed: bool, state: Tensor | None):
    """To bfloat16, in which it makes its products."""
    q, k, v = random(2, 3, 9, 5), random(2, 3, 9, 5, seed=1), random(2, 3, 9, 4)
    k, beta = k / k.norm(dim=-1, keepdim=True), random(2, 3, 9).sigmoid()
    inputs = [q, k, v, beta, -random(2, 3, 9, seed=2).exp() if decayed else None, state]
    found, true = delta_rule_fla(*inputs), delta_rule_reference(*inputs)
    for ours, theirs in zip(found, true, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


@pytest.mark.parametrize("eps", [None, 0.25])
@pytest.mark.parametrize("with_sums", [False, True])
def test_linear_attention_by_fla(stand_ins: None, with_sums: bool, eps: float | None):
    phi_q, phi_k, z = random(2, 3, 9, 5).exp(), random(2, 3, 9, 5, seed=1).exp(), random(2, 3, 5).exp()
    before = [random(2, 3, 5, 4), None if eps is None else z] if with_sums else [None, None]
    q, k, v, kv, z = wanting(phi_q, phi_k, random(2, 3, 9, 4), *before)
    as_near_as_torch(linear_attention_fla, linear_attention_reference, [q, k, v, eps, kv, z])


@pytest.mark.parametrize("tail", [None, random(2, 3, 5)], ids=["fresh", "going on"])
@pytest.mark.parametrize("bias", [None, random(5)], ids=["plain", "biased"])
@pytest.mark.parametrize("length", [1, 9])
def test_short_conv_by_fla(stand_ins: None, length: int, bias: Tensor | None, tail: Tensor | None):
    inputs = wanting(random(2, length, 5), random(4, 5), bias, tail)
    as_near_as_torch(short_conv_fla, short_conv_reference, inputs)


@pytest.mark.parametrize("channels", [4, 16, 17])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3)], ids=str)
def test_taylor_attention_by_fla(stand_ins: None, channels: int, lead: tuple[int, ...]):
    q, k, v = (random(*lead, 9, width, seed=i) for i, width in enumerate((channels, channels, 5)))
    as_near_as_torch(taylor_attention_fla, taylor_attention_reference, [*wanting(q, k, v), EPS])


# members of a population -----------------------------------------------------------------------------------


@pytest.mark.parametrize("in_dims", [(0, 0, 0, None, 0, 0), (0, 2, 0, 0, None, None)])
def test_stacked_members_run_as_each_alone(stand_ins: None, in_dims: tuple[int | None, ...]):
    """The scan: A has no batch dimension, so that members with an A each run one by one."""
    inputs = [*scan_inputs(), random(2, 6, 4)]
    moved = [x if d is None else torch.stack([x, x / 2], d) for d, x in zip(in_dims, inputs, strict=True)]
    moved = wanting(*moved)
    y, last = torch.vmap(selective_scan_mamba_ssm, in_dims=in_dims)(*moved)
    upstream = torch.randn_like(y)
    grads = torch.autograd.grad(y, moved[:3], upstream)
    for i in range(2):
        own = wanting(*(x if d is None else x.select(d, i) for d, x in zip(in_dims, moved, strict=True)))
        alone = results(outputs_only(selective_scan_mamba_ssm), own, [upstream[i]])
        torch.testing.assert_close(y[i], alone[0])
        torch.testing.assert_close(last[i], selective_scan_mamba_ssm(*own)[1])
        for grad, mine, dim in zip(grads, alone[1:], in_dims, strict=False):
            if dim is not None:
                torch.testing.assert_close(grad.select(dim, i), mine)


def test_stacked_members_are_more_of_the_batch(stand_ins: None):
    q, k, v = (random(3, 2, 4, 9, 8, seed=i) for i in range(3))
    y = torch.vmap(attention_flash_attn, in_dims=(0, 0, 0, None, None))(q, k, v, 3, alibi_slopes(4))
    for i in range(3):
        torch.testing.assert_close(y[i], attention_reference(q[i], k[i], v[i], 3, alibi_slopes(4)))


@pytest.mark.parametrize("in_dims", [(0, 0, 0, 0), (0, None, 1, 2), (None, 2, None, None)])
def test_stacked_members_are_more_channels_of_a_convolution(stand_ins: None, in_dims: tuple[int | None, ...]):
    members_as_alone(
        short_conv_fla, wanting(random(2, 9, 5), random(4, 5), random(5), random(2, 3, 5)), in_dims
    )


def test_stacked_members_are_more_of_the_batch_of_linear_attention(stand_ins: None):
    q, k, v = wanting(*(random(2, 3, 9, 5, seed=i).exp() for i in range(3)))
    members_as_alone(linear_attention_fla, [q, k, v, 0.25, None, None], (0, 0, 1, None, None, None))


# refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (unfit_for_flash(*[torch.zeros(1, 1, 2, 8)] * 3), "takes bfloat16 or float16, and gets float32"),
        (unfit_for_flash(*[torch.zeros(1, 1, 2, 264).half()] * 3), "head_dim (=264) must be at most 256"),
        (unfit_for_flash(*[torch.zeros(1, 1, 2, 8).bfloat16()] * 3), "the tensors are on cpu"),
        (unfit_for_taylor(*[torch.zeros(2, 8)] * 3, 1e-3), "eps (=0.001) must be fla's 1e-06"),
        (
            unfit_for_delta(*(torch.zeros(1, 1, n, 4) for n in (2, 6, 6)), torch.zeros(1, 1, 6)),
            "one write a query is all that fla's chunks take, and there are 3",
        ),
        (unfit_for_linear(*[torch.zeros(1, 1, 2, 4).double()] * 3, None), "a tensor is torch.float64"),
        (unfit_for_linear(*[torch.zeros(1, 1, 2, 4)] * 3, None), "the tensors are on cpu"),
        (unfit_for_conv(torch.zeros(1, 2, 4), torch.zeros(4, 4).double()), "a tensor is torch.float64"),
        (unfit_for_conv(torch.zeros(1, 2, 4), torch.zeros(4, 4)), "the tensors are on cpu"),
    ],
)
def test_what_a_package_cannot_take_is_said(said: str | None, reason: str):
    assert said is not None and reason in said
