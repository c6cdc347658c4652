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
PER = pytest.mark.parametrize("per", ["head", "channel"])
SIZES = [  # B, H, T, K, V
    (64, 2, 256, 16, 64),  # Mamba-2 in a Figure 2 cell
    (16, 2, 333, 64, 128),
    (4, 4, 512, 256, 128),
    (8, 2, 100, 33, 34),  # the mLSTM's values have one channel more
    (3, 1, 1, 16, 16),
]


def draw(
    size: tuple[int, ...], dtype: torch.dtype, strongest: float = 1.0, per: str = "head"
) -> list[Tensor]:
    """q, k, v, and in float32 log decays, as they always are, and a first state."""
    batch, count, length, keys, width = size
    rng = torch.Generator(DEVICE).manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, device=DEVICE)

    q, k, v = (randn(batch, length, count, c).transpose(1, 2).to(dtype) for c in (keys, keys, width))
    each = (keys,) if per == "channel" else ()
    log_decay = -strongest * torch.rand(batch, length, count, *each, generator=rng, device=DEVICE)
    inputs = (q * keys**-0.5, k, v, log_decay.transpose(1, 2), randn(batch, count, keys, width))
    return [x.detach().requires_grad_() for x in inputs]


@PER
@STRONGEST
@DTYPES
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    size: tuple[int, ...], dtype: torch.dtype, strongest: float, per: str, poisoned: None
):
    inputs = draw(size, dtype, strongest, per)
    near_in_norm(gated_linear_attention_triton, gated_linear_attention_reference, inputs)


@PER
@DTYPES
def test_two_runs_give_the_same_bits(dtype: torch.dtype, per: str):
    same_bits_twice(gated_linear_attention_triton, draw(SIZES[1], dtype, per=per))


@PER
def test_a_captured_graph_gives_what_a_call_gives(per: str):
    captured_as_called(gated_linear_attention_triton, draw(SIZES[1], torch.bfloat16, per=per))


def test_a_long_sequence_with_a_few_strong_decays_by_channel():
    """Products of float32 are made in parts here, which no interpreter does: no digit is lost to them."""
    q, k, v, log_decay, state = draw((2, 2, 1000, 64, 64), torch.float32, 0.01, "channel")
    strong = torch.rand(log_decay.shape, generator=torch.Generator(DEVICE).manual_seed(1), device=DEVICE)
    log_decay = torch.where(strong < 0.1, -40.0, log_decay).detach().requires_grad_()
    near_in_norm(gated_linear_attention_triton, gated_linear_attention_reference, [q, k, v, log_decay, state])


@PER
def test_products_are_made_in_the_narrowest_dtype(per: str):
    """Mixers scale or rotate queries in float32, and leave values in bfloat16."""
    q, k, v, log_decay, state = draw(SIZES[1], torch.float32, per=per)
    narrow = [x.bfloat16() for x in (q, k, v)]
    expected = gated_linear_attention_triton(*narrow, log_decay, state)
    found = gated_linear_attention_triton(q, k, narrow[2], log_decay, state)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
