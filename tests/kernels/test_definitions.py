"""What tests/definitions does not show of the ops: packed features, ties, inputs that stay as they were."""

from itertools import product

import pytest
import torch
from torch import Tensor

from tests.kernels import cases
from zoo.kernels.block_choice import block_choice
from zoo.kernels.linear_attention.reference import linear_attention_reference
from zoo.kernels.span_retrieval import scores as held
from zoo.kernels.taylor_attention.reference import taylor_attention_reference
from zoo.kernels.taylor_scan import num_features, taylor_scan
from zoo.mixers.feature_maps import Taylor2


@pytest.mark.parametrize("channels", [1, 2, 5, 16])
def test_packed_features_give_the_polynomial(channels: int):
    """Half the products are enough: the recurrence over 1 + C + C (C + 1) / 2 features is the same map."""
    q, k, v, eps, *_ = cases.taylor_scan(19, False, channels)
    phi, true = Taylor2(channels).double(), taylor_attention_reference(q, k, v, eps)
    assert phi(q).shape[-1] == phi.expanded_dim == 1 + channels + channels * (channels + 1) // 2
    recurrent, *_ = linear_attention_reference(phi(q), phi(k), v, eps, None, None)
    torch.testing.assert_close(recurrent, true, rtol=1e-12, atol=1e-12)
    y, kv, z = taylor_scan(q, k, v, eps)
    torch.testing.assert_close(y, true, rtol=1e-12, atol=1e-12)
    assert kv.shape == (2, 3, num_features(channels), 7) and z.shape == kv.shape[:-1]


def whole_numbers(rows: int, blocks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, summaries and starts whose scores are often equal."""
    rng = torch.Generator().manual_seed(rows)
    queries = torch.randint(-2, 3, (2, 4, rows, 3), generator=rng).double()
    summaries = torch.randint(-2, 3, (2, 2, blocks, 3), generator=rng).double()
    return queries, summaries, torch.randint(0, 4 * (blocks + 3), (rows,), generator=rng)


def best_of(queries: Tensor, summaries: Tensor, start: int, first: int, max_blocks: int) -> list[int]:
    """Of one sequence, row and index set: all its heads [H C], and the summaries they read [H U C]."""
    scores = [float((queries * summaries[:, u]).sum()) for u in range(summaries.shape[1])]
    ended = [u for u in range(len(scores)) if (first + u + 1) * 4 <= start]
    reached = [u for u in ended if first + u >= start // 4 - max_blocks]
    return sorted(reached, key=lambda u: (-scores[u], u))[:3]


@pytest.mark.parametrize("held_scores", [1, 50, 2**22])
@pytest.mark.parametrize("sets", [1, 2])
def test_the_best_blocks_in_reach_the_lowest_first(
    sets: int, held_scores: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(held, "HELD", held_scores)
    queries, summaries, starts = whole_numbers(17, 12)
    ids = block_choice(queries, summaries, starts, sets, 4, 3, 3, 9)
    for b, i in product(range(2), range(sets)):
        heads = list(range(4) if sets == 1 else range(2 * i, 2 * i + 2))
        read = summaries[b, [h // 2 for h in heads]]
        for r, start in enumerate(starts.tolist()):
            best = best_of(queries[b, heads, r], read, start, 3, 9)
            assert ids[b, i, r].tolist() == best + [-1] * (3 - len(best))


def test_stacked_members_choose_as_alone():
    queries, summaries, starts = whole_numbers(9, 6)

    def member(q: Tensor) -> Tensor:
        return block_choice(q, summaries, starts, 1, 4, 0, 2, None)

    together = torch.vmap(member)(torch.stack([queries, -queries]))
    assert torch.equal(together, torch.stack([member(queries), member(-queries)]))


def test_diagonal_scans_leave_their_inputs_as_they_were():
    inputs = cases.diagonal_scan(9, (3,), True)
    before = [x.detach().clone() for x in inputs]
    h, _ = cases.public("diagonal_scan")(*inputs)
    h.sum().backward()
    assert all(map(torch.equal, inputs, before))
