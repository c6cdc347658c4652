"""The selective scan's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.selective_scan import selective_scan_reference

pytest.importorskip("triton")
from zoo.kernels.selective_scan.triton import selective_scan_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SIZES = [  # B, T, D, N
    (64, 256, 128, 16),  # a Figure 2 cell
    (16, 64, 256, 24),
    (4, 333, 100, 9),
    (2, 1023, 64, 256),
    (32, 1, 128, 8),
]


def draw(size: tuple[int, int, int, int], dtype: torch.dtype, device: str = "cuda") -> list[Tensor]:
    """x, dt, A, B, C and a first state, with step sizes and decays of a fresh Mamba."""
    batch, length, width, d_state = size
    rng = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng, device=device)

    dt = F.softplus(normal(batch, length, width) - 4)
    A = -torch.arange(1.0, d_state + 1, device=device).expand(width, -1)
    maps = normal(batch, length, 8 + 2 * d_state).to(dtype)[..., 8:].chunk(2, -1)
    inputs = normal(batch, length, width).to(dtype), dt.to(dtype), A, *maps, normal(batch, width, d_state)
    return [s.detach().requires_grad_() for s in inputs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(size, dtype: torch.dtype, poisoned: None):
    near_in_norm(selective_scan_triton, selective_scan_reference, draw(size, dtype))


def test_two_runs_give_the_same_bits():
    same_bits_twice(selective_scan_triton, draw((8, 333, 100, 16), torch.bfloat16))


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(selective_scan_triton, draw((8, 100, 128, 16), torch.bfloat16))


def test_members_with_an_A_of_their_own():
    members = [[s.detach() for s in draw((8, 65, 48, 16), torch.float32)] for _ in range(3)]
    for i, member in enumerate(members):
        member[2] = member[2] * (i + 1)
    stacked = [torch.stack(parts) for parts in zip(*members, strict=True)]
    together = torch.vmap(selective_scan_triton)(*stacked)
    for i, member in enumerate(members):
        torch.testing.assert_close(tuple(s[i] for s in together), selective_scan_triton(*member))
