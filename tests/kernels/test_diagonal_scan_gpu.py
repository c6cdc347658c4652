"""The diagonal scan's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.diagonal_scan import diagonal_scan_reference

pytest.importorskip("triton")
from zoo.kernels.diagonal_scan.triton import diagonal_scan_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SIZES = [(64, 256, 128), (8, 1023, 100), (2, 3, 333, 40), (32, 1, 128)]  # ... T D


def draw(sizes: tuple[int, ...], dtype: torch.dtype, device: str = "cuda") -> list[Tensor]:
    """decay, x and a first state."""
    rng = torch.Generator(device).manual_seed(0)
    parts = torch.randn(*sizes[:-1], 2 * sizes[-1], generator=rng, device=device).chunk(2, -1)
    state = torch.randn(*sizes[:-2], sizes[-1], generator=rng, device=device)
    inputs = (parts[0] + 2).sigmoid(), parts[1], state
    return [s.to(dtype).detach().requires_grad_() for s in inputs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    sizes: tuple[int, ...], dtype: torch.dtype, poisoned: None
):
    near_in_norm(diagonal_scan_triton, diagonal_scan_reference, draw(sizes, dtype))


def test_two_runs_give_the_same_bits():
    same_bits_twice(diagonal_scan_triton, draw((8, 333, 100), torch.bfloat16))


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(diagonal_scan_triton, draw((8, 100, 128), torch.bfloat16))
