"""The delta rule's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.delta_rule import delta_rule_reference

pytest.importorskip("triton")
from zoo.kernels.delta_rule.triton import delta_rule_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"
SIZES = [  # B, H, T, writes for each query, K, V
    (64, 2, 256, 1, 64, 64),
    (64, 2, 256, 1, 32, 64),  # Gated DeltaNet: values twice as wide
    (16, 2, 64, 1, 128, 128),
    (8, 4, 333, 1, 9, 33),
    (4, 2, 100, 3, 64, 128),  # Gated DeltaProduct
    (2, 2, 1024, 1, 100, 200),
    (3, 1, 1, 1, 16, 16),
]
DTYPES = [torch.float32, torch.bfloat16]


def draw(size: tuple[int, ...], dtype: torch.dtype, repeated: float = 0.0, decay: float = 0.1) -> list[Any]:
    """q, k, v, beta in [0, 2], log_decay and a first state; a share of the keys is the same key.

    q, k and v are pieces of one projection, heads side by side, as mixers hand them over.
    """
    batch, heads, length, writes, K, V = size
    rng, total = torch.Generator(DEVICE).manual_seed(0), length * writes

    def rows(count: int, width: int) -> torch.Tensor:
        x = torch.randn(batch, count, heads, width, generator=rng, device=DEVICE)
        return x.transpose(1, 2)

    k, v = rows(total, K + V).split([K, V], -1)
    same = torch.rand(total, 1, generator=rng, device=DEVICE) < repeated
    k = F.normalize(torch.where(same, k[:, :, :1], k), dim=-1)
    beta, log_decay = rows(total, 2).unbind(-1)
    state = torch.randn(batch, heads, K, V, generator=rng, device=DEVICE)
    inputs = (rows(length, K), k, v, 2 * beta.sigmoid(), -decay * F.softplus(log_decay), state)
    return [x.to(dtype).detach().requires_grad_() for x in inputs]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(size, dtype: torch.dtype, poisoned: None):
    near_in_norm(delta_rule_triton, delta_rule_reference, draw(size, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_decay_and_a_first_state(dtype: torch.dtype, poisoned: None):
    inputs = [*draw((8, 2, 300, 1, 64, 64), dtype)[:4], None, None]
    near_in_norm(delta_rule_triton, delta_rule_reference, inputs)


@pytest.mark.parametrize("decay", [0.0, 1.0, 300.0])
def test_keys_that_repeat_and_decays_of_any_strength(decay: float, poisoned: None):
    inputs = draw((4, 2, 300, 1, 64, 64), torch.float32, repeated=0.5, decay=decay)
    near_in_norm(delta_rule_triton, delta_rule_reference, inputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_two_runs_give_the_same_bits(dtype: torch.dtype):
    same_bits_twice(delta_rule_triton, draw((8, 4, 333, 1, 64, 128), dtype))


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(delta_rule_triton, draw((8, 2, 100, 1, 64, 64), torch.bfloat16))
