"""Gated linear attention's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.gated_linear_attention import gated_linear_attention_reference

pytest.importorskip("triton")
from zoo.kernels.gated_linear_attention.triton import gated_linear_attention_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
STRONGEST = pytest.mark.parametrize("strongest", [0.05, 40.0])
SIZES = [  # B, H, T, K, V
    (64, 2, 256, 16, 64),  # Mamba-2 in a Figure 2 cell
    (16, 2, 333, 64, 128),
    (4, 4, 512, 256, 128),
    (8, 2, 100, 33, 34),  # the mLSTM's values have one channel more
    (3, 1, 1, 16, 16),
]


def draw(size: tuple[int, ...], dtype: torch.dtype, strongest: float = 1.0) -> list[Tensor]:
    """q, k, v, and in float32 log decays, as they always are, and a first state."""
    batch, count, length, keys, width = size
    rng = torch.Generator(DEVICE).manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, device=DEVICE)

    q, k, v = (randn(batch, length, count, c).transpose(1, 2).to(dtype) for c in (keys, keys, width))
    log_decay = -strongest * torch.rand(batch, length, count, generator=rng, device=DEVICE).mT
    inputs = (q * keys**-0.5, k, v, log_decay, randn(batch, count, keys, width))
    return [x.detach().requires_grad_() for x in inputs]


@STRONGEST
@DTYPES
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    size: tuple[int, ...], dtype: torch.dtype, strongest: float, poisoned: None
):
    inputs = draw(size, dtype, strongest)
    near_in_norm(gated_linear_attention_triton, gated_linear_attention_reference, inputs)


@DTYPES
def test_two_runs_give_the_same_bits(dtype: torch.dtype):
    same_bits_twice(gated_linear_attention_triton, draw(SIZES[1], dtype))


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(gated_linear_attention_triton, draw(SIZES[1], torch.bfloat16))
