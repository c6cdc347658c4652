"""The decoding step's Triton kernel on a GPU at real sizes: pytest -m gpu.  None has run it yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from zoo.kernels.window_decode import window_decode_reference
from zoo.mixers.positions import alibi_slopes

pytest.importorskip("triton")
from zoo.kernels.window_decode.triton import window_decode_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"
CASES = [  # B, H, G, tokens kept, C, window
    (128, 16, 16, 127, 64, 128),
    (64, 1, 1, 63, 128, 64),
    (8, 16, 2, 2047, 64, 2048),
    (3, 6, 2, 20, 33, 50),
    (2, 2, 1, 0, 64, 5),
    (2, 1, 1, 0, 16, 1),
]


def draw(sizes: list[int], dtype: torch.dtype) -> list[Tensor]:
    """What is kept lies in longer tensors, as what a mixer cuts off a prompt does."""
    batch, heads, groups, num_kept, channels = sizes
    rng = torch.Generator(DEVICE).manual_seed(0)
    q = torch.randn(batch, heads, 1, channels, generator=rng, device=DEVICE).to(dtype)
    whole = torch.randn(2, batch, 3 + num_kept, groups, channels, generator=rng, device=DEVICE).to(dtype)
    (k, v), kept = whole.transpose(2, 3)[..., -1:, :], whole.transpose(2, 3)[..., 2:-1, :]
    return [x.detach().requires_grad_() for x in (q, k, v, *kept)]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    case: tuple, dtype: torch.dtype, biased: bool, poisoned: None
):
    *sizes, window = case
    inputs = draw(sizes, dtype)
    slopes = alibi_slopes(sizes[1]).to(inputs[0].device) if biased else None
    near_in_norm(window_decode_triton, window_decode_reference, [*inputs, window, slopes])


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("num_kept", "window"), [(0, 200), (128, 200), (199, 200), (0, 1)])
def test_what_is_kept_is_copied_to_the_bit(num_kept: int, window: int, dtype: torch.dtype, poisoned: None):
    """Eight query heads a key/value head are two programs, of which one writes."""
    inputs = [*draw([5, 16, 2, num_kept, 64], dtype), window]
    found, true = window_decode_triton(*inputs), window_decode_reference(*inputs)
    assert all(torch.equal(mine, other) for mine, other in zip(found[1:], true[1:], strict=True))


def test_two_runs_give_the_same_bits():
    same_bits_twice(window_decode_triton, [*draw([8, 16, 2, 127, 64], torch.bfloat16), 128])


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(window_decode_triton, [*draw([8, 16, 2, 127, 64], torch.bfloat16), 128])
