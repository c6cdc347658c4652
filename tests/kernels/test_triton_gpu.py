"""Our Triton kernels on a GPU at real sizes: pytest -m gpu."""

import pytest
import torch

from tests.kernels.agreement import ON_A_GPU, captured_as_called, near_in_norm
from tests.kernels.spans import Call, inputs
from tests.kernels.triton_cases import KERNELS, Kernel, Size, of_each
from zoo.kernels.common.agreement import same_bits_twice, widened
from zoo.kernels.se_attention.gathered import se_attention_gathered

pytest.importorskip("triton")
pytestmark = ON_A_GPU
BY_OP = {kernel.op: kernel for kernel in KERNELS}
TAYLOR, SCAN, SE = (BY_OP[op] for op in ("taylor_scan", "selective_scan", "se_attention"))
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
EACH = pytest.mark.parametrize(  # of every kernel the first sizes, and long ones
    ("kernel", "size"),
    [
        *((kernel, size) for kernel in KERNELS for size in kernel.large[:3]),
        *((TAYLOR, (*size, True)) for size in ((1, 2, 8192, 16, 64), (8, 4, 333, 16, 64), (8, 4, 1, 16, 64))),
    ],
    ids=str,
)


@DTYPES
@pytest.mark.parametrize(("kernel", "size"), of_each("large"), ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(
    kernel: Kernel, size: Size, dtype: torch.dtype, poisoned: None
):
    if kernel is SE and dtype == torch.float32 and size[1] > 64:
        pytest.skip("refused: a head as wide would spill registers")
    near_in_norm(kernel.function, kernel.on_a_card, kernel.draw(*size, "cuda", dtype))


@EACH
def test_two_runs_give_the_same_bits(kernel: Kernel, size: Size):
    assert same_bits_twice(kernel.function, kernel.draw(*size, "cuda", torch.bfloat16))


@EACH
def test_a_captured_graph_gives_what_a_call_gives(kernel: Kernel, size: Size):
    given = kernel.draw(*size, "cuda", torch.bfloat16)
    kernel.function(*given)  # compiles
    captured_as_called(kernel.function, given)


def test_chunks_are_the_recurrence_on_a_gpu():
    given = widened(TAYLOR.draw(1, 2, 300, 5, 7, True, "cuda", torch.float64))
    torch.testing.assert_close(TAYLOR.on_a_card(*given), TAYLOR.definition(*given))


def test_members_may_differ_in_A():
    members = [[x.detach() for x in SCAN.draw(8, 65, 48, 16, True, "cuda", torch.float32)] for _ in range(3)]
    for i, member in enumerate(members):
        member[2] = member[2] * (i + 1)
    stacked = [torch.stack(parts) for parts in zip(*members, strict=True)]
    together = torch.vmap(SCAN.function)(*stacked)
    for i, member in enumerate(members):
        torch.testing.assert_close(tuple(s[i] for s in together), SCAN.function(*member))


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
    y = SE.function(*given)
    y.sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 2**28
    q, k, v, *rest = given
    exact = se_attention_gathered(*[*(x.float() for x in (q, k, v)), *rest])
    assert (y - exact).norm() < 0.01 * exact.norm()
