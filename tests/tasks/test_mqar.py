"""MQAR's settings and errors, and the laws of its random numbers; test_recall_rows.py tests its rows."""

from functools import cache
from typing import Any

import pytest
import torch
from scipy import stats

from tests.tasks.laws import ALPHA, chi2, gaps_of, independent, mqar, same_law
from zoo.common.counter_rng import below, bits, uniform
from zoo.tasks.base import Batch
from zoo.tasks.laws import same
from zoo.tasks.mqar_numpy_compat import reference_rows
from zoo.tasks.sampling import distinct, outside


def test_chunks_never_change_a_byte(monkeypatch: pytest.MonkeyPatch):
    task = mqar(64, 4, filler="safe")
    whole = task.sample("train", 0, range(100))
    monkeypatch.setattr("zoo.tasks.mixture.CHUNK", {"cpu": 640})
    assert same(task.sample("train", 0, range(100)), whole)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"filler": "saef"}, r"task\.filler \(='saef'\) must be one of safe, random, blank"),
        ({"data": "fresh"}, r"task\.data \(='fresh'\) must be one of"),
        ({"order": "random"}, r"task\.order \(='random'\) must be one of"),
        ({"num_passes": 0}, r"task\.num_passes \(=0\) must be at least 1"),
        ({"num_passes": 2}, r"6 \* num_kv_pairs \(=4\) must be at most seq_len \(=16\).*24 tokens"),
        ({"power_a": 0.0}, r"task\.power_a \(=0\.0\) must be positive"),
        ({"vocab_size": 9}, r"task\.vocab_size \(=9\) has 3 keys, too few .* use at least 10"),
        ({"train": []}, r"task\.train has no segments"),
        ({"test": [{"seq_len": 16}]}, r"a segment of task\.test must be {seq_len, num_kv_pairs, num_ex"),
        ({"test": [16]}, r"a segment of task\.test must be .* it is 16"),
        ({"test": [{"seq_len": 16.5, "num_kv_pairs": 1, "num_examples": 1}]}, r"16\.5.* must be a whole"),
        ({"valid": [{"seq_len": 15, "num_kv_pairs": 1, "num_examples": 1}]}, r"must be even; use 16"),
        ({"valid": [{"seq_len": 16, "num_kv_pairs": 0, "num_examples": 1}]}, r"num_kv_pairs \(=0\)"),
        ({"valid": [{"seq_len": 16, "num_kv_pairs": 1, "num_examples": 0}]}, r"num_examples \(=0\)"),
        ({"valid": [{"seq_len": 18, "num_kv_pairs": 5, "num_examples": 1}]}, r"4 \* num_kv_pairs \(=5\)"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(changes: dict[str, Any], words: str):
    good = {"vocab_size": 64, "filler": "safe"}
    mqar(16, 4, **good)
    with pytest.raises(ValueError, match=words) as error:
        mqar(16, 4, **good | changes)
    assert "\n" not in str(error.value)


@cache
def ours(seq_len: int, n: int, rows: int, vocab_size: int = 8192, filler: str = "random") -> Batch:
    return mqar(seq_len, n, vocab_size=vocab_size, filler=filler).sample("train", 0, range(rows))


@cache
def theirs(seq_len: int, n: int, rows: int) -> Batch:
    return reference_rows(seed=5, vocab_size=8192, seq_len=seq_len, num_kv_pairs=n, num_examples=rows)


def slot_weights(slots: int, power_a: float = 0.01) -> torch.Tensor:
    return torch.arange(1, slots + 1, dtype=torch.float64) ** (power_a - 1)


def test_uniform_numbers_are_uniform_and_serially_independent():
    u = uniform(bits(11, torch.arange(2000), 100))
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > ALPHA
    cells = (u * 16).long()
    for a, b in ((cells[:, 1:], cells[:, :-1]), (cells[1:], cells[:-1])):  # the next slot, the next example
        assert chi2(a * 16 + b, torch.ones(256)) > ALPHA


@pytest.mark.parametrize(("seq_len", "n", "rows"), [(64, 4, 20_000), (256, 64, 2000)])
def test_keys_and_values_are_uniform(seq_len: int, n: int, rows: int):
    batch = ours(seq_len, n, rows)
    keys, values = batch.inputs[:, 0 : 2 * n : 2] - 1, batch.answers - 4096
    bins = torch.tensor([len(range(i, 4095, 64)) for i in range(64)])
    for pair in (0, n - 1):
        assert chi2(keys[:, pair] // 64, bins) > ALPHA
        assert chi2(values[:, pair] // 64, torch.ones(64)) > ALPHA
    assert chi2(keys % 64, bins) > ALPHA
    assert chi2(values % 64, torch.ones(64)) > ALPHA
    both = (keys % 8) * 8 + values % 8  # of 4095 keys one residue lacks one
    assert chi2(both, torch.ones(64) + 1e-9) > ALPHA / 10


def test_all_ordered_pairs_of_keys_and_of_values_are_equally_likely():
    batch = ours(8, 2, 40_000, vocab_size=32)
    for first, second, pool in (
        (batch.inputs[:, 0] - 1, batch.inputs[:, 2] - 1, 15),
        (batch.answers[:, 0] - 16, batch.answers[:, 1] - 16, 16),
    ):
        assert (first != second).all()
        cell = first * (pool - 1) + second - (second > first).long()
        assert chi2(cell, torch.ones(pool * (pool - 1))) > ALPHA


def test_drawing_the_whole_pool_gives_every_permutation_equally_often():
    drawn = distinct(3, torch.arange(24_000), 4, 4)
    cell = (drawn * torch.tensor([64, 16, 4, 1])).sum(1)
    _, counts = cell.unique(return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts.numpy()).pvalue > ALPHA


def test_distinct_keeps_the_order_of_first_appearance():
    """A loop over the same stream agrees, for pools where repeats are the rule."""
    for count, pool in ((2, 3), (5, 6), (16, 20), (64, 100)):
        drawn = distinct(9, torch.arange(40), count, pool)
        long = below(bits(9, torch.arange(40), 4000), pool).tolist()
        assert drawn.tolist() == [list(dict.fromkeys(row))[:count] for row in long]


@pytest.mark.parametrize("power_a", [0.01, 0.5, 1.0])
def test_the_first_gap_follows_the_power_law(power_a: float):
    batch = mqar(64, 4, power_a=power_a).sample("train", 0, range(40_000))
    assert chi2(gaps_of(batch.positions)[:, 0], slot_weights(28, power_a)) > ALPHA


def test_the_second_gap_is_drawn_from_what_the_first_left():
    p = slot_weights(28) / slot_weights(28).sum()
    pair = p[:, None] * p / (1 - p[:, None])
    second = pair.fill_diagonal_(0).sum(0)
    assert chi2(gaps_of(ours(64, 4, 40_000).positions)[:, 1], second) > ALPHA


def test_packed_gaps_are_a_permutation_in_the_order_drawn():
    gaps = gaps_of(ours(64, 16, 20_000).positions)
    assert gaps.sort().values.equal(torch.arange(16).expand_as(gaps))
    assert chi2(gaps[:, 0], slot_weights(16)) > ALPHA


def test_gaps_equal_the_references():
    a, b = gaps_of(ours(64, 4, 40_000).positions), gaps_of(theirs(64, 4, 10_000).positions)
    for rank in range(4):
        assert same_law(a[:, rank], b[:, rank]) > ALPHA
    assert same_law(a[:, 0] * 28 + a[:, 1], b[:, 0] * 28 + b[:, 1]) > ALPHA
    assert same_law(a[:, 3] * 28 + a[:, 2], b[:, 3] * 28 + b[:, 2]) > ALPHA


@pytest.mark.parametrize(("seq_len", "n", "rows"), [(64, 8, 3000), (256, 32, 1500)])
def test_distances_equal_the_references(seq_len: int, n: int, rows: int):
    """Kolmogorov-Smirnov on row means, since distances within a row depend on each other."""
    both = [batch.groups["distance"] for batch in (ours(seq_len, n, rows), theirs(seq_len, n, rows))]
    assert stats.ks_2samp(*(distance.double().mean(1).numpy() for distance in both)).pvalue > ALPHA
    for pair in (0, n - 1):
        assert same_law(*(distance[:, pair] // 2 for distance in both)) > ALPHA


def filler_of(batch: Batch) -> torch.Tensor:
    rows, n = batch.positions.shape
    free = torch.ones_like(batch.inputs, dtype=torch.bool)
    free[:, : 2 * n] = False
    free.scatter_(1, batch.positions, False)
    return batch.inputs[free].view(rows, -1)


def test_random_filler_is_uniform_over_the_vocabulary():
    filler = filler_of(ours(64, 4, 4000))
    assert filler.shape[1] == 64 - 8 - 4
    assert chi2(filler // 16, torch.ones(512)) > ALPHA
    assert chi2(filler[:, 0] // 128, torch.ones(64)) > ALPHA


@pytest.mark.parametrize(
    ("seq_len", "n", "rows", "rate"), [(64, 4, 8000, 0.15), (256, 64, 500, 0.38), (1024, 256, 100, 1.55)]
)
def test_random_filler_repeats_the_query_as_often_as_expected(seq_len: int, n: int, rows: int, rate: float):
    """A reader that goes by the latest binding, not by the context, misses `rate` per cent."""
    batch = ours(seq_len, n, rows)
    hits, expected = 0, 0.0
    for row, places in zip(batch.inputs, batch.positions, strict=True):
        places = places.sort().values
        between = (places - 2 * n) - torch.arange(n)  # filler tokens between the context and the query
        expected += (1 - (1 - 1 / 8192) ** between.double()).sum().item()
        same = row[2 * n :] == row[places][:, None]
        hits += (same & (torch.arange(2 * n, seq_len) < places[:, None])).any(1).sum().item()
    assert expected / (rows * n) == pytest.approx(rate / 100, rel=0.04)
    assert stats.poisson.sf(hits - 1, expected) > ALPHA / 2
    assert stats.poisson.cdf(hits, expected) > ALPHA / 2


def test_safe_filler_is_uniform_over_the_free_tokens():
    """Each token has an equal share of the filler of the rows it is free in."""
    batch = ours(32, 4, 20_000, vocab_size=32, filler="safe")
    filler, taken = filler_of(batch), batch.inputs[:, :8]
    free = torch.ones(len(taken), 32, dtype=torch.bool).scatter_(1, taken, False)
    assert chi2(filler, free.sum(0)) > ALPHA
    assert chi2(filler[:, -1], free.sum(0)) > ALPHA


def test_outside_counts_through_the_free_tokens():
    taken = torch.tensor([[3, 0, 7], [9, 8, 1]])
    free = [[1, 2, 4, 5, 6, 8, 9], [0, 2, 3, 4, 5, 6, 7]]
    assert outside(torch.arange(7).repeat(2, 1), taken).tolist() == free


def test_streams_are_independent_of_each_other():
    """Keys, values and gaps of a row; the same example of two splits and of two seeds."""
    a = ours(64, 4, 20_000)
    gaps, keys, values = gaps_of(a.positions)[:, 0] % 8, a.inputs[:, 0] % 8, a.answers[:, 0] % 8
    other = mqar(64, 4).sample("valid", 0, range(20_000)).inputs[:, 0] % 8
    seed = mqar(64, 4, seed=1).sample("train", 0, range(20_000)).inputs[:, 0] % 8
    for x, y in ((keys, values), (keys, gaps), (values, gaps), (keys, other), (keys, seed)):
        assert independent(x, y) > ALPHA
