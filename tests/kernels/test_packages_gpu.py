"""The packages' kernels through our adapters on a GPU, where they are installed: pytest -m gpu."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import near_in_norm
from zoo.kernels.attention.flash_attn import attention_flash_attn
from zoo.kernels.attention.reference import attention_reference
from zoo.kernels.common.available import absent
from zoo.kernels.delta_rule.fla import delta_rule_fla
from zoo.kernels.delta_rule.reference import delta_rule_reference
from zoo.kernels.gated_linear_attention.fla import gated_linear_attention_fla
from zoo.kernels.gated_linear_attention.reference import gated_linear_attention_reference
from zoo.kernels.linear_attention.fla import linear_attention_fla
from zoo.kernels.linear_attention.reference import linear_attention_reference
from zoo.kernels.selective_scan.mamba_ssm import selective_scan_mamba_ssm
from zoo.kernels.selective_scan.reference import selective_scan_reference
from zoo.kernels.short_conv import short_conv_reference
from zoo.kernels.short_conv.fla import short_conv_fla
from zoo.kernels.taylor_attention.fla import EPS, taylor_attention_fla
from zoo.kernels.taylor_attention.reference import taylor_attention_reference
from zoo.mixers.positions import alibi_slopes

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BF16 = torch.bfloat16


def needs(package: str) -> pytest.MarkDecorator:
    why = absent(package) if torch.cuda.is_available() else "needs a CUDA device"
    return pytest.mark.skipif(why is not None, reason=why or "")


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def random(*shape: int, dtype: torch.dtype = BF16, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=rng).to(device(), dtype)


def wanting(*inputs: Any) -> list[Any]:
    return [x.detach().requires_grad_() if isinstance(x, Tensor) else x for x in inputs]


def first(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: function(*inputs)[0]


@needs("flash_attn")
@pytest.mark.parametrize("dtype", [BF16, torch.float16], ids=str)
@pytest.mark.parametrize("window", [None, 1, 64, 129])
@pytest.mark.parametrize("biased", [False, True])
def test_flash_attn(dtype: torch.dtype, window: int | None, biased: bool):
    for length, keys in ((300, 300), (17, 300), (1, 200)):
        q = random(2, 4, length, 64, dtype=dtype)
        k, v = (random(2, 2, keys, 64, dtype=dtype, seed=i) for i in (1, 2))
        slopes = alibi_slopes(4).to(device()) if biased else None
        near_in_norm(attention_flash_attn, attention_reference, [*wanting(q, k, v), window, slopes])


@needs("mamba_ssm")
@pytest.mark.parametrize("dtype", [torch.float32, BF16], ids=str)
@pytest.mark.parametrize("going_on", [False, True])
def test_mamba_ssm(dtype: torch.dtype, going_on: bool):
    x, B, C = (random(2, 130, n, dtype=dtype, seed=n) for n in (96, 16, 16))
    dt = F.softplus(random(2, 130, 96, dtype=dtype, seed=5) - 3)
    A = -random(96, 16, dtype=torch.float32).exp()
    state = random(2, 96, 16, dtype=torch.float32) if going_on else None
    inputs = wanting(x, dt, A, B, C, state)
    near_in_norm(first(selective_scan_mamba_ssm), first(selective_scan_reference), inputs)
    values = [t if t is None else t.detach() for t in inputs]
    near_in_norm(last_of(selective_scan_mamba_ssm), last_of(selective_scan_reference), values)


def last_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: function(*inputs)[1]


@needs("fla")
@pytest.mark.parametrize("each", [(), (64,)], ids=["a head", "a channel"])
@pytest.mark.parametrize("going_on", [False, True])
def test_gated_linear_attention_by_fla(each: tuple[int, ...], going_on: bool):
    q, k, v = (random(2, 3, 200, 64, seed=i) for i in range(3))
    decay = F.logsigmoid(random(2, 3, 200, *each, dtype=torch.float32) + 3)
    state = random(2, 3, 64, 64, dtype=torch.float32) if going_on else None
    inputs = wanting(q, k, v, decay, state)
    near_in_norm(gated_linear_attention_fla, gated_linear_attention_reference, inputs)


@needs("fla")
@pytest.mark.parametrize("decayed", [False, True])
@pytest.mark.parametrize("going_on", [False, True])
def test_delta_rule_by_fla(decayed: bool, going_on: bool):
    q, k, v = (random(2, 3, 200, 64, seed=i) for i in range(3))
    k, beta = F.normalize(k, dim=-1), random(2, 3, 200).sigmoid()
    decay = F.logsigmoid(random(2, 3, 200, dtype=torch.float32) + 3) if decayed else None
    state = random(2, 3, 64, 64, dtype=torch.float32) if going_on else None
    near_in_norm(delta_rule_fla, delta_rule_reference, wanting(q, k, v, beta, decay, state))


@needs("fla")
@pytest.mark.parametrize("eps", [None, 1e-6])
@pytest.mark.parametrize("going_on", [False, True])
def test_linear_attention_by_fla(going_on: bool, eps: float | None):
    q, k = (F.elu(random(2, 3, 200, 64, seed=i)) + 1 for i in range(2))
    kv = random(2, 3, 64, 64, dtype=torch.float32) if going_on else None
    z = random(2, 3, 64, dtype=torch.float32).exp() if going_on and eps else None
    inputs = [*wanting(q, k, random(2, 3, 200, 64)), eps, *wanting(kv, z)]
    near_in_norm(linear_attention_fla, linear_attention_reference, inputs)


@needs("fla")
@pytest.mark.parametrize("going_on", [False, True])
@pytest.mark.parametrize("length", [1, 200])
def test_short_conv_by_fla(length: int, going_on: bool):
    x, weight, bias = random(2, length, 96), random(4, 96, dtype=torch.float32), random(96)
    near_in_norm(
        short_conv_fla, short_conv_reference, wanting(x, weight, bias, random(2, 3, 96) if going_on else None)
    )


@needs("fla")
@pytest.mark.parametrize("channels", [16, 24])
def test_taylor_attention_by_fla(channels: int):
    q, k, v = (random(2, 3, 300, n, seed=i) for i, n in enumerate((channels, channels, 64)))
    near_in_norm(taylor_attention_fla, taylor_attention_reference, [*wanting(q, k, v), EPS])


@needs("flash_attn")
def test_members_of_a_population_run_as_each_alone():
    q, k, v = wanting(*(random(3, 2, 4, 100, 64, seed=i) for i in range(3)))
    y = torch.vmap(lambda *x: attention_flash_attn(*x, 33, None))(q, k, v)
    alone = torch.stack([attention_flash_attn(q[i], k[i], v[i], 33) for i in range(3)])
    torch.testing.assert_close(y, alone)
