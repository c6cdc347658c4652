"""The packages' kernels through our adapters on a GPU, where they are installed: pytest -m gpu."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import ON_A_GPU, near_in_norm
from tests.kernels.cases import BOTH, Inputs, op_of
from tests.kernels.triton_cases import Draw
from zoo.kernels.common.available import absent
from zoo.mixers.positions import alibi_slopes

pytestmark = ON_A_GPU
SINGLE, BF16 = torch.float32, torch.bfloat16
random = Draw("cuda" if torch.cuda.is_available() else "cpu", BF16)


def heads(*channels: int, length: int = 200) -> list[Tensor]:
    return [random(2, 3, length, n, seed=i) for i, n in enumerate(channels)]


def attention(dtype: torch.dtype, window: int | None, biased: bool, length: int, keys: int) -> Inputs:
    q = random(2, 4, length, 64, dtype=dtype)
    k, v = (random(2, 2, keys, 64, dtype=dtype, seed=seed) for seed in (1, 2))
    return [q, k, v, window, alibi_slopes(4).to(q.device) if biased else None]


def selective_scan(dtype: torch.dtype, going_on: bool) -> Inputs:
    x, B, C = (random(2, 130, n, dtype=dtype, seed=i) for i, n in enumerate((96, 16, 16)))
    dt, A = F.softplus(random(2, 130, 96, dtype=dtype, seed=5) - 3), -random(96, 16, dtype=SINGLE).exp()
    return [x, dt, A, B, C, random(2, 96, 16, dtype=SINGLE) if going_on else None]


def gated_linear_attention(each: tuple[int, ...], going_on: bool) -> Inputs:
    decay = F.logsigmoid(random(2, 3, 200, *each, dtype=SINGLE) + 3)
    return [*heads(64, 64, 64), decay, random(2, 3, 64, 64, dtype=SINGLE) if going_on else None]


def delta_rule(decayed: bool, going_on: bool) -> Inputs:
    q, k, v = heads(64, 64, 64)
    decay = F.logsigmoid(random(2, 3, 200, dtype=SINGLE) + 3) if decayed else None
    state = random(2, 3, 64, 64, dtype=SINGLE) if going_on else None
    return [q, F.normalize(k, dim=-1), v, random(2, 3, 200).sigmoid(), decay, state]


def linear_attention(eps: float | None, going_on: bool) -> Inputs:
    q, k, v = heads(64, 64, 64)
    kv = random(2, 3, 64, 64, dtype=SINGLE) if going_on else None
    z = random(2, 3, 64, dtype=SINGLE).exp() if going_on and eps else None
    return [F.elu(q) + 1, F.elu(k) + 1, v, eps, kv, z]


def short_conv(length: int, going_on: bool) -> Inputs:
    x, weight, bias = random(2, length, 96), random(4, 96, dtype=SINGLE), random(96)
    return [x, weight, bias, random(2, 3, 96) if going_on else None]


CALLS: list[tuple[str, Callable[..., Inputs], tuple[Any, ...]]] = [  # package, inputs, arguments
    *(("flash_attn", attention, (dtype, window, biased, *shape)) for dtype, window, biased, shape in product(
        (BF16, torch.float16), (None, 1, 64, 129), BOTH, ((300, 300), (17, 300), (1, 200)))),
    *(("mamba_ssm", selective_scan, of) for of in product((SINGLE, BF16), BOTH)),
    *(("fla", gated_linear_attention, of) for of in product(((), (64,)), BOTH)),
    *(("fla", delta_rule, of) for of in product(BOTH, BOTH)),
    *(("fla", linear_attention, of) for of in product((None, 1e-6), BOTH)),
    *(("fla", short_conv, of) for of in product((1, 200), BOTH)),
]  # fmt: skip


def one_of(place: int, function: Callable[..., Any], *inputs: Any) -> Any:
    return function(*inputs)[place]


@pytest.mark.parametrize(("package", "draw", "of"), CALLS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_as_near_to_float64_as_torch(package: str, draw: Callable[..., Inputs], of: tuple[Any, ...]):
    if why := absent(package):
        pytest.skip(why)
    op, given = op_of(draw.__name__), draw(*of)
    both = [op.implementation(package), op.forms["reference"]]
    wanted = (isinstance(x, Tensor) and (draw is not attention or x.ndim == 4) for x in given)  # no slopes
    inputs = [x.detach().requires_grad_() if want else x for x, want in zip(given, wanted, strict=True)]
    if package == "fla" and (why := op.refusal(package, *inputs)):  # of some cards and versions of Triton
        pytest.skip(why)
    if package == "mamba_ssm":  # whose last state has no gradient
        near_in_norm(*(partial(one_of, 1, function) for function in both), given)
        both = [partial(one_of, 0, function) for function in both]
    near_in_norm(*both, inputs)


def test_members_of_a_population_run_as_each_alone():
    if why := absent("flash_attn"):
        pytest.skip(why)
    attend = op_of("attention").implementation("flash_attn")
    q, k, v = (random(3, 2, 4, 100, 64, seed=i).requires_grad_() for i in range(3))
    y = torch.vmap(lambda *x: attend(*x, 33, None))(q, k, v)
    torch.testing.assert_close(y, torch.stack([attend(q[i], k[i], v[i], 33) for i in range(3)]))
