"""The Triton kernels of the choice of blocks on a GPU at real sizes: pytest -m gpu."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import ON_A_GPU, captured_as_called
from zoo.kernels.block_choice.reference import block_choice_reference
from zoo.kernels.span_retrieval.scores import relevance
from zoo.kernels.span_retrieval.selection import admissible_blocks

pytest.importorskip("triton")
from zoo.kernels.block_choice.triton import block_choice_triton

pytestmark = ON_A_GPU


class Call(NamedTuple):
    batch: int
    heads: int
    groups: int
    sets: int
    rows: int
    blocks: int
    channels: int
    block_size: int
    first_block: int
    top_k: int
    max_blocks: int | None


CALLS = [
    Call(1, 16, 16, 1, 128, 2048, 64, 32, 0, 8, None),  # a row a chunk of 512, 65,536 tokens
    Call(64, 1, 1, 1, 256, 64, 128, 4, 0, 2, None),  # a row a token, as it trains
    Call(2, 4, 2, 2, 1000, 333, 24, 4, 0, 9, None),
    Call(1, 8, 8, 1, 20000, 1000, 64, 16, 0, 8, None),
    Call(4, 4, 4, 1, 1, 700, 64, 16, 37, 8, 50),  # decoding
    Call(1, 1, 1, 1, 40, 5, 300, 8, 0, 64, None),
    Call(1, 2, 1, 1, 70, 1500, 32, 2, 0, 64, 1000),
]


def inputs(call: Call, device: str, dtype: torch.dtype = torch.float32) -> list[Any]:
    """Queries with heads side by side, as a projection leaves them; chunks begin anywhere, in order, a few
    after the last block."""
    rng = torch.Generator().manual_seed(call.rows + call.blocks)
    queries = torch.randn(call.batch, call.rows, call.heads, call.channels, generator=rng).transpose(1, 2)
    summaries = torch.randn(call.batch, call.groups, call.blocks, call.channels, generator=rng)
    last = (call.first_block + call.blocks) * call.block_size
    starts = torch.randint(0, last + 4 * call.block_size, (call.rows,), generator=rng).sort().values
    starts[-1] = last if call.rows == 1 else last + 2 * call.block_size
    sizes = [call.sets, call.block_size, call.first_block, call.top_k, call.max_blocks]
    return [queries.to(device, dtype), summaries.to(device), starts.to(device), *sizes]


def exactly(given: list[Any]) -> list[Any]:
    return [given[0].double(), given[1].double(), *given[2:]]


def check_exact(given: list[Any]) -> None:
    """Assert that the blocks are those of float64."""
    assert torch.equal(block_choice_triton(*given), block_choice_reference(*exactly(given)))


def check_as_good(ids: Tensor, given: list[Any]) -> None:
    """Assert that the n-th block of each row has the n-th best score in float64, but for rounding."""
    queries, summaries, starts, sets, size, first, _, within = exactly(given)
    exact = block_choice_reference(*exactly(given))
    assert torch.equal(ids < 0, exact < 0)
    summaries = summaries.repeat_interleave(queries.shape[1] // summaries.shape[1], 1)
    scores = relevance(queries, summaries, sets)
    sums = relevance(queries.abs(), summaries.abs(), sets).amax(-1, keepdim=True)
    ours, true = (scores.gather(-1, x.clamp(min=0)) for x in (ids, exact))
    assert ((ours - true).abs() <= 2**-20 * sums)[ids >= 0].all()
    reached = admissible_blocks(starts, size, first, summaries.shape[2], within).expand(scores.shape)
    assert reached.gather(-1, ids.clamp(min=0))[ids >= 0].all()
    ordered = ids.sort(-1).values
    assert (ordered.diff(dim=-1) != 0)[ordered[..., 1:] >= 0].all(), "a block twice"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_blocks_as_good_as_those_of_float64(call: Call, dtype: torch.dtype):
    given = inputs(call, "cuda", dtype)
    check_as_good(block_choice_triton(*given), given)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_of_equal_scores_the_lowest_block(call: Call):
    """Whole numbers, which every product and sum holds."""
    given = inputs(call, "cuda")
    given[:2] = given[0].round(), given[1].round()
    check_exact(given)


def test_two_runs_give_the_same_bits():
    given = inputs(CALLS[2], "cuda", torch.bfloat16)
    assert torch.equal(block_choice_triton(*given), block_choice_triton(*given))


@pytest.mark.parametrize("call", CALLS[:3], ids=str)
def test_a_captured_graph_gives_what_a_call_gives(call: Call):
    given = inputs(call, "cuda", torch.bfloat16)
    block_choice_triton(*given)  # compiles
    captured_as_called(block_choice_triton, given)


def test_scores_are_not_held():
    """65,536 rows and 2,048 blocks: their scores would be 512 MiB."""
    given = inputs(Call(1, 4, 4, 1, 65536, 2048, 64, 32, 0, 8, None), "cuda", torch.bfloat16)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    block_choice_triton(*given)
    assert torch.cuda.max_memory_allocated() - before < 2**26
