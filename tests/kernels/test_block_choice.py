"""The choice of blocks in torch: what it says of itself, in parts and stacked."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from zoo.kernels.block_choice import block_choice, block_choice_reference
from zoo.kernels.span_retrieval import scores as held


def inputs(rows: int, blocks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Whole numbers, so that scores are often equal."""
    rng = torch.Generator().manual_seed(rows)
    queries = torch.randint(-2, 3, (2, 4, rows, 3), generator=rng).double()
    summaries = torch.randint(-2, 3, (2, 2, blocks, 3), generator=rng).double()
    return queries, summaries, torch.randint(0, 4 * (blocks + 3), (rows,), generator=rng)


def one_by_one(queries: Tensor, summaries: Tensor, start: int, first: int, max_blocks: int) -> list[int]:
    """Of one sequence, row and index set: all its heads [H C], and the summaries they read [H U C]."""
    scores = [float((queries * summaries[:, u]).sum()) for u in range(summaries.shape[1])]
    ended = [u for u in range(len(scores)) if (first + u + 1) * 4 <= start]
    reached = [u for u in ended if first + u >= start // 4 - max_blocks]
    return sorted(reached, key=lambda u: (-scores[u], u))[:3]


@pytest.mark.parametrize("held_scores", [1, 50, 2**22])
@pytest.mark.parametrize("sets", [1, 2])
def test_the_best_of_those_in_reach_the_lowest_first(
    sets: int, held_scores: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(held, "HELD", held_scores)
    queries, summaries, starts = inputs(17, 12)
    found = block_choice(queries, summaries, starts, sets, 4, 3, 3, 9)
    for b in range(2):
        for i in range(sets):
            heads = range(4) if sets == 1 else range(2 * i, 2 * i + 2)
            read = summaries[b, [h // 2 for h in heads]]
            for r, start in enumerate(starts.tolist()):
                best = one_by_one(queries[b, list(heads), r], read, start, 3, 9)
                assert found[b, i, r].tolist() == best + [-1] * (3 - len(best))


def test_stacked_members_choose_as_alone():
    queries, summaries, starts = inputs(9, 6)
    stacked = torch.stack([queries, -queries])

    def member(q: Tensor) -> Tensor:
        return block_choice_reference(q, summaries, starts, 1, 4, 0, 2, None)

    found = vmap(member)(stacked)
    assert torch.equal(found[0], member(queries)) and torch.equal(found[1], member(-queries))
