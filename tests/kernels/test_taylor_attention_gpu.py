"""Taylor attention's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.taylor_attention import taylor_attention_reference

pytest.importorskip("triton")
from zoo.kernels.taylor_attention.triton import taylor_attention_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
EPS = 1e-6
SIZES = [  # B, H, T, C, V
    (64, 1, 256, 16, 64),  # a Figure 2 cell
    (64, 1, 64, 24, 128),
    (8, 4, 333, 9, 33),
    (2, 2, 1024, 32, 128),
    (2, 2, 1023, 16, 200),
    (3, 1, 1, 8, 16),
]


def heads(size: tuple[int, int, int, int, int], dtype: torch.dtype) -> list[Tensor]:
    batch, count, length, channels, width = size
    rng = torch.Generator("cuda").manual_seed(0)
    whole = torch.randn(
        batch, length, count * (2 * channels + width), generator=rng, device="cuda", dtype=dtype
    )
    parts = whole.unflatten(-1, (count, -1)).transpose(1, 2).split([channels, channels, width], -1)
    return [part.detach().requires_grad_() for part in parts]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(size, dtype: torch.dtype, poisoned: None):
    near_in_norm(taylor_attention_triton, taylor_attention_reference, [*heads(size, dtype), EPS])


def test_two_runs_give_the_same_bits():
    same_bits_twice(taylor_attention_triton, [*heads((8, 4, 333, 16, 64), torch.bfloat16), EPS])


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(taylor_attention_triton, [*heads((8, 2, 100, 16, 64), torch.bfloat16), EPS])
