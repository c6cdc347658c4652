"""The decoding step's Triton kernel on a GPU at real sizes: pytest -m gpu.  None has run it yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.attention import attention_reference
from zoo.mixers.positions import alibi_slopes

pytest.importorskip("triton")
from zoo.kernels.window_decode.triton import window_decode_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CASES = [  # B, H, G, S, C, window
    (128, 16, 16, 128, 64, 128),
    (64, 1, 1, 300, 128, 64),
    (8, 16, 2, 2048, 64, None),
    (3, 6, 2, 77, 33, 50),
    (2, 1, 1, 1, 16, 16),
]


def draw(sizes: list[int], dtype: torch.dtype, device: str = "cuda") -> list[Tensor]:
    batch, heads, groups, num_keys, channels = sizes
    rng = torch.Generator(device).manual_seed(0)
    q = torch.randn(batch, heads, 1, channels, generator=rng, device=device).to(dtype)
    k, v = torch.randn(2, batch, num_keys, groups, channels, generator=rng, device=device).to(dtype)
    return [x.detach().requires_grad_() for x in (q, k.transpose(1, 2), v.transpose(1, 2))]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    case: tuple, dtype: torch.dtype, biased: bool, poisoned: None
):
    *sizes, window = case
    inputs = draw(sizes, dtype)
    slopes = alibi_slopes(sizes[1]).to(inputs[0].device) if biased else None
    near_in_norm(window_decode_triton, attention_reference, [*inputs, window, slopes])


def test_two_runs_give_the_same_bits():
    same_bits_twice(window_decode_triton, [*draw([8, 4, 2, 200, 64], torch.bfloat16), 128])


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(window_decode_triton, [*draw([8, 4, 2, 200, 64], torch.bfloat16), 128])
