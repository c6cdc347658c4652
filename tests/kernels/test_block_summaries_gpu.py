"""The Triton kernel of block summaries on a GPU at real sizes: pytest -m gpu.  None has run it yet."""

from typing import Any

import pytest
import torch

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.block_summaries import block_summaries_reference

pytest.importorskip("triton")
from zoo.kernels.block_summaries.triton import block_summaries_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SIZES = [  # B, H, G, C, blocks, block_size
    (8, 4, 2, 64, 32, 32),
    (64, 1, 1, 128, 64, 4),
    (2, 2, 1, 33, 100, 12),
    (1, 2, 2, 16, 9, 128),
]


def inputs(size: tuple[int, ...], device: str, dtype: torch.dtype) -> list[Any]:
    """q, k and v as pieces of one projection, heads side by side."""
    batch, heads, groups, channels, blocks, block_size = size
    rng = torch.Generator().manual_seed(blocks)
    whole = torch.randn(batch, blocks * block_size, heads + 2 * groups, channels, generator=rng)
    parts = whole.to(device, dtype).transpose(1, 2).split([heads, groups, groups], 1)
    return [*(part.detach().requires_grad_() for part in parts), block_size]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(size, dtype: torch.dtype, poisoned: None):
    near_in_norm(block_summaries_triton, block_summaries_reference, inputs(size, "cuda", dtype))


def test_two_runs_give_the_same_bits():
    same_bits_twice(block_summaries_triton, inputs(SIZES[0], "cuda", torch.bfloat16))


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(block_summaries_triton, inputs(SIZES[0], "cuda", torch.bfloat16))
