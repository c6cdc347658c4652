"""Run by test_interpreted.py: the choice of blocks in Triton's interpreter, in float32, against float64."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch.func import vmap

from tests.kernels.spans import mixer_runs
from tests.kernels.test_block_choice_gpu import Call, check_as_good, check_exact, inputs
from zoo.kernels.block_choice import block_choice
from zoo.kernels.block_choice import triton as ours
from zoo.kernels.block_choice.reference import block_choice_reference
from zoo.kernels.block_choice.triton import block_choice_triton
from zoo.kernels.choice import kernels

CALLS = [  # tiles of 64 rows and 32 blocks
    Call(2, 4, 2, 2, 70, 90, 9, 4, 0, 3, None),
    Call(1, 2, 1, 1, 5, 70, 70, 3, 2, 8, 4),  # several pieces of channels; the oldest are forgotten
    Call(1, 3, 3, 3, 65, 33, 16, 2, 5, 1, None),
    Call(1, 1, 1, 1, 1, 130, 16, 2, 1, 2, 100),  # decoding
    Call(2, 1, 1, 1, 9, 5, 4, 4, 0, 7, None),  # more than there are
]


@pytest.mark.parametrize("programs", [1, 1024], ids=["long walks", "short walks"])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_blocks_are_those_of_float64(call: Call, programs: int, monkeypatch: pytest.MonkeyPatch):
    """Random numbers have no two scores that are near; many of whole numbers are equal."""
    monkeypatch.setattr(ours, "PROGRAMS", programs)
    given = inputs(call, "cpu")
    check_exact(given)
    given[:2] = given[0].round(), given[1].round()
    check_exact(given)


def test_many_spans_of_many_slots_are_merged_in_parts():
    given = inputs(Call(1, 1, 1, 1, 3, 600, 2, 1, 0, 33, None), "cpu")
    assert ours.cut_of(1, 3, 600, 64).spans == 7
    check_exact(given)


def test_rows_in_any_order():
    given = inputs(CALLS[0], "cpu")
    given[2] = given[2].flip(0)
    check_exact(given)


@pytest.mark.parametrize(("blocks", "top_k"), [(0, 3), (4, 0)])
def test_nothing_to_choose(blocks: int, top_k: int):
    given = inputs(Call(1, 2, 2, 1, 3, blocks, 4, 2, 0, top_k, None), "cpu")
    assert block_choice_triton(*given).shape == block_choice_reference(*given).shape == (1, 1, 3, 0)


def test_ranks_are_in_the_order_of_scores():
    """The lowest block ranks first among equal scores; -inf and what does not count rank last."""

    @triton.jit
    def ranked(scores, ranks, counts, N: tl.constexpr):
        u = tl.arange(0, N)
        x, counted = tl.load(scores + u)[None, :], tl.load(counts + u)[None, :] != 0
        tl.store(ranks + u[None, :], ours._ranks(x, u, counted))

    inf, nan = torch.inf, torch.nan
    scores = [0.0, -0.0, 1e-45, -1e-45, 3.0, -2.0, inf, -inf, 3.0, -3e38, 3e38, nan, -1.5, 0.0, 7.0, 2.0]
    scores, counts = torch.tensor(scores), torch.ones(16, dtype=torch.int32)
    counts[14] = 0
    ranks = torch.empty(16, dtype=torch.int64)
    ranked[(1,)](scores, ranks, counts, tl.constexpr(16))
    order = ranks.sort(descending=True, stable=True).indices.tolist()
    assert order[:14] == [6, 11, 10, 4, 8, 15, 2, 0, 1, 13, 3, 12, 5, 9]
    assert ranks[[7, 14]].tolist() == [-(2**63)] * 2


def test_stacked_members_are_more_of_the_batch():
    q, c, starts, *sizes = inputs(Call(2, 2, 2, 1, 7, 40, 5, 2, 0, 3, None), "cpu")
    stacked = torch.stack([q, q.flip(2), -q])

    def member(q: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return block_choice_triton(q, c, starts, *sizes)

    ids = vmap(member, in_dims=(0, None))(stacked, c)
    assert all(torch.equal(ids[i], member(stacked[i], c)) for i in range(3))
    ids = vmap(member, in_dims=(1, 0))(stacked.movedim(0, 1), torch.stack([c, -c, c.flip(2)]))
    assert torch.equal(ids[0], member(q, c)) and torch.equal(ids[1], member(stacked[1], -c))
    assert torch.equal(ids[2], member(-q, c.flip(2)))


def test_no_gradient_passes():
    given = inputs(CALLS[4], "cpu")
    given[0].requires_grad_()
    assert not block_choice_triton(*given).requires_grad


@pytest.mark.parametrize(
    "changes",
    [
        {"selection": "prev", "max_blocks": 3},
        {"num_kv_heads": 1, "summary": "mean_key"},
        {"selection": "prefix", "retrieval": "per_group"},
    ],
    ids=str,
)
def test_a_mixer_runs_the_kernel(changes: dict[str, Any]):
    """A sequence in parts has the same blocks, and so the same outputs, as the whole."""
    mixer_runs("block_choice", changes)


def test_unfit_inputs_are_refused_with_a_reason():
    given = inputs(CALLS[4], "cpu")
    long = inputs(Call(1, 1, 1, 1, 1, 70, 4, 2, 0, 65, None), "cpu")
    for wrong, reason in (
        ([given[0].double(), *given[1:]], "torch.float64 and torch.float32"),
        ([given[0], given[1].bfloat16(), *given[2:]], "torch.float32 and torch.bfloat16"),
        (long, r"top_k \(=65\) must be at most 64"),
    ):
        with kernels("triton"), pytest.raises(ValueError, match=f"cannot run block_choice: .*{reason}"):
            block_choice(*wrong)


def test_the_checks_of_the_gpu_tests_work_here():
    given = inputs(CALLS[0], "cpu")
    check_as_good(block_choice_triton(*given), given)
    with pytest.raises(AssertionError):
        check_as_good(block_choice_triton(*given).flip(-1), given)
