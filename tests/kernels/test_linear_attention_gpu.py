"""Linear attention's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.linear_attention import linear_attention_reference

pytest.importorskip("triton")
from zoo.kernels.linear_attention.triton import linear_attention_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"
EPS = pytest.mark.parametrize("eps", [None, 1e-6], ids=["plain", "denominator"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
SIZES = [  # B, H, T, F, V
    (64, 1, 256, 64, 64),
    (16, 2, 333, 153, 64),  # Based's packed features
    (4, 4, 512, 256, 128),
    (8, 2, 100, 9, 33),
    (3, 1, 1, 16, 16),
]


def draw(size: tuple[int, ...], dtype: torch.dtype, eps: float | None) -> list[Tensor | float | None]:
    """Positive features, as a denominator asks; the sums before the first token in float32."""
    batch, count, length, features, width = size
    rng = torch.Generator(DEVICE).manual_seed(0)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=rng, device=DEVICE)

    whole = rand(batch, length, count * (2 * features + width)).to(dtype)
    parts = whole.unflatten(-1, (count, -1)).transpose(1, 2).split([features, features, width], -1)
    sums = rand(batch, count, features, width), rand(batch, count, features)
    phi_q, phi_k, v, kv, z = (x.detach().requires_grad_() for x in (*parts, *sums))
    return [phi_q, phi_k, v, eps, kv, *([] if eps is None else [z])]


@EPS
@DTYPES
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    size: tuple[int, ...], dtype: torch.dtype, eps: float | None, poisoned: None
):
    near_in_norm(linear_attention_triton, linear_attention_reference, draw(size, dtype, eps))


@EPS
@DTYPES
def test_two_runs_give_the_same_bits(dtype: torch.dtype, eps: float | None):
    same_bits_twice(linear_attention_triton, draw(SIZES[1], dtype, eps))


@EPS
def test_a_captured_graph_gives_what_a_call_gives(eps: float | None):
    captured_as_called(linear_attention_triton, draw(SIZES[1], torch.bfloat16, eps))
