"""se_attention's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch

from tests.kernels.agreement import captured_as_called, near_in_norm, same_bits_twice
from tests.kernels.spans import Call, inputs
from zoo.kernels.se_attention import se_attention_gathered, se_attention_reference

pytest.importorskip("triton")
from zoo.kernels.se_attention.triton import se_attention_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CALLS = [
    Call(16, 1, 1, 1, 256, 0, 0, 32, 4, 2, False, False),
    Call(16, 2, 2, 2, 256, 0, 0, 16, 4, 2, True, True),
    Call(2, 4, 2, 1, 1000, 0, 0, 256, 32, 4, False, True),
    Call(2, 4, 1, 1, 1000, 0, 0, 96, 32, 8, True, False),
    Call(1, 4, 2, 2, 700, 333, 333, 192, 16, 8, False, False),
    Call(1, 2, 1, 1, 2048, 0, 0, 512, 128, 2, False, True),
    Call(4, 4, 2, 1, 1, 1037, 1037, 256, 32, 8, False, False),
    Call(2, 4, 2, 1, 1000, 0, 0, (32, 64, 256), 32, 4, False, False),  # chunks of several sizes
    Call(2, 2, 2, 2, 777, 0, 0, (16, 48), 16, 4, True, True),
]
WIDTHS = [(torch.float32, 64), (torch.float32, 24), (torch.bfloat16, 64), (torch.bfloat16, 128)]


def near(call: Call, channels: int, dtype: torch.dtype, device: str) -> None:
    near_in_norm(se_attention_triton, se_attention_reference, inputs(call, channels, device, dtype))


def twice(call: Call, channels: int, dtype: torch.dtype, device: str) -> None:
    same_bits_twice(se_attention_triton, inputs(call, channels, device, dtype))


@pytest.mark.parametrize(("dtype", "channels"), WIDTHS, ids=str)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    call: Call, dtype: torch.dtype, channels: int, poisoned: None
):
    near(call, channels, dtype, "cuda")


@pytest.mark.parametrize("call", CALLS[:4], ids=str)
def test_two_runs_give_the_same_bits(call: Call):
    twice(call, 64, torch.bfloat16, "cuda")


@pytest.mark.parametrize("call", CALLS[:4], ids=str)
def test_a_captured_graph_gives_what_a_call_gives(call: Call):
    captured_as_called(se_attention_triton, inputs(call, 64, "cuda", torch.bfloat16))


@pytest.mark.parametrize(
    "call",
    [
        Call(1, 2, 1, 1, 65536, 0, 0, 2048, 32, 8, False, False),  # a mask over all pairs would be 4 GiB
        Call(1, 2, 1, 1, 16384, 0, 0, 512, 32, 8, True, False),  # gathered, keys and values are 1 GiB a head
    ],
    ids=str,
)
def test_a_long_sequence_holds_little_more_than_its_inputs(call: Call):
    """Against the gathered form, in float32."""
    given = inputs(call, 64, "cuda", torch.bfloat16)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = se_attention_triton(*given)
    y.sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 2**28
    q, k, v, *rest = given
    exact = se_attention_gathered(*[*(x.float() for x in (q, k, v)), *rest])
    assert (y - exact).norm() < 0.01 * exact.norm()
