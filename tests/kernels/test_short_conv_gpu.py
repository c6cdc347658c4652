"""The short convolution's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.short_conv import short_conv_reference

pytest.importorskip("triton")
from zoo.kernels.short_conv.triton import short_conv_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SIZES = [(256, 256, 128, 4), (8, 1023, 100, 3), (1, 8192, 72, 8), (32, 1, 512, 4)]  # B T C K


def draw(sizes: tuple[int, ...], dtype: torch.dtype, device: str = "cuda") -> list[Tensor]:
    """x, as a piece of a wider tensor, weight, bias and tail; weight and bias stay float32, as in a model."""
    batch, length, channels, taps = sizes
    rng = torch.Generator(device).manual_seed(0)
    x = torch.randn(batch, length, 2 * channels, generator=rng, device=device).to(dtype)[..., :channels]
    weight = torch.randn(taps, channels, generator=rng, device=device)
    bias = torch.randn(channels, generator=rng, device=device)
    tail = torch.randn(batch, taps - 1, channels, generator=rng, device=device).to(dtype)
    return [s.detach().requires_grad_() for s in (x, weight, bias, tail)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    sizes: tuple[int, ...], dtype: torch.dtype, poisoned: None
):
    near_in_norm(short_conv_triton, short_conv_reference, draw(sizes, dtype))


def test_two_runs_give_the_same_bits():
    same_bits_twice(short_conv_triton, draw((8, 1023, 100, 4), torch.bfloat16))


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(short_conv_triton, draw((8, 100, 128, 4), torch.bfloat16))
