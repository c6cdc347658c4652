"""Taylor linear attention's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.common.precision import wide
from zoo.kernels.taylor_scan import taylor_scan_chunked, taylor_scan_reference

pytest.importorskip("triton")
from zoo.kernels.taylor_scan.triton import taylor_scan_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
EPS = 1e-6
DEVICE = "cuda"
Size = tuple[int, int, int, int, int]
SIZES = [  # B, H, T, C, V
    (4, 16, 2048, 16, 64),
    (64, 1, 256, 16, 64),
    (2, 3, 1333, 9, 33),
    (1, 2, 1023, 32, 128),
    (1, 1, 3000, 24, 200),
    (2, 2, 77, 8, 16),
    (128, 16, 1, 16, 64),
    (3, 1, 1, 32, 200),
]


def inputs_of(size: Size, dtype: torch.dtype, started: bool) -> list:
    """Pieces of one projection, and a state that such keys leave."""
    batch, count, length, channels, width = size
    rng = torch.Generator(DEVICE).manual_seed(0)
    shape = (batch, length + 50, count, 2 * channels + width)
    whole = torch.randn(shape, generator=rng, device=DEVICE, dtype=dtype).transpose(1, 2)
    now, past = whole[:, :, 50:], whole[:, :, :50].float()
    qkv = [x.detach().requires_grad_() for x in now.split([channels, channels, width], -1)]
    if not started:
        return [*qkv, EPS, None, None]
    _, k, v = past.split([channels, channels, width], -1)
    _, kv, z = taylor_scan_chunked(k, k, v, EPS)
    return [*qkv, EPS, kv.contiguous().requires_grad_(), z.requires_grad_()]


def in_torch(*inputs: Any) -> tuple[Tensor, ...]:
    """In chunks, as the recurrence would take minutes; in float32, as the state is."""
    return taylor_scan_chunked(*map(wide, inputs))


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch(size: Size, dtype: torch.dtype, started: bool, poisoned: None):
    near_in_norm(taylor_scan_triton, in_torch, inputs_of(size, dtype, started))


def test_chunks_are_the_recurrence_here_too():
    inputs = [
        x.double() if isinstance(x, Tensor) else x for x in inputs_of((1, 2, 300, 5, 7), torch.float32, True)
    ]
    torch.testing.assert_close(taylor_scan_chunked(*inputs), taylor_scan_reference(*inputs))


@pytest.mark.parametrize("size", [(1, 2, 8192, 16, 64), (8, 4, 333, 16, 64), (8, 4, 1, 16, 64)], ids=str)
def test_two_runs_give_the_same_bits(size: Size):
    same_bits_twice(taylor_scan_triton, inputs_of(size, torch.bfloat16, True))


@pytest.mark.parametrize("size", [(1, 2, 8192, 16, 64), (8, 4, 1, 16, 64)], ids=str)
def test_a_captured_graph_gives_what_a_call_gives(size: Size):
    captured_as_called(taylor_scan_triton, inputs_of(size, torch.bfloat16, True))
