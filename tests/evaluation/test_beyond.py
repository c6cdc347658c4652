"""Evaluations beyond the scores: greedy writing, extrapolation, load and distance."""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.command import refusal
from tests.tasks import made
from zoo.evaluation.extrapolation import Extrapolation
from zoo.evaluation.greedy import Greedy, Written, _judged, continued
from zoo.evaluation.load_distance import LoadDistance
from zoo.evaluation.trained import Trained
from zoo.tasks.around import Around, Limited
from zoo.tasks.base import IGNORED, SPLITS, Batch, Segment, Split, Task
from zoo.tasks.depo import Depo
from zoo.tasks.mqar_keys import KeysMQAR
from zoo.tasks.mqar_probe import MQARProbe, blinded
from zoo.tasks.ruler_lite import RulerLite

ANS, AND, END = 1, 2, 3


class Spelled(Around):
    """A task of prompts of two lengths, with answers of two parts: 4 or 5 tokens of 24 each."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.separator, self.stop = AND, END

    def segments(self, split: Split) -> list[Segment]:
        return [Segment(seq_len=12, num_examples=6, slice={"seq_len": 12})]

    def sample(self, split: Split, segment: int, examples: Any, device: Any = "cpu") -> Batch:
        inputs, positions, answers = [], [], []
        for i in map(int, examples):
            answer = [4 + i, 5, AND, 6 + i, END] if i % 2 else [4 + i, AND, 6, END]
            prompt = [7 + i] * (12 - len(answer)) + [ANS]
            inputs.append(prompt + answer[:-1])
            positions.append([*range(12 - len(answer), 12), 0][:5])
            answers.append([*answer, IGNORED][:5])
        return Batch(*(torch.tensor(field) for field in (inputs, positions, answers)))


def test_greedy_writing_is_the_argmax_over_whole_sequences_until_the_end(held: Trained) -> None:
    cell = replace(held, task=Spelled(held.task))
    batch = cell.task.sample("test", 0, range(6))
    actual = sorted(continued(cell, batch, 9, "x"))
    expected = []
    for row, answers in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
        prompt = row[: row.index(ANS) + 1]
        output: list[int] = []
        while len(output) < 9 and END not in output:
            output.append(int(held.logits(torch.tensor([prompt + output]))[0, -1].argmax()))
        expected.append(Written([token for token in answers if token != IGNORED], output))
    assert actual == sorted(expected)


def test_writing_stops_once_every_row_has_ended(held: Trained) -> None:
    model = deepcopy(held.model)
    drawn = torch.randn(model.embedding.shape, generator=torch.Generator().manual_seed(0))
    model.head = torch.nn.Parameter(drawn)  # so that it does not repeat one token
    held, prompts = replace(held, model=model), held.task.sample("test", 0, range(6)).inputs
    freely = held.greedy(prompts, 6)
    # a token after which its row goes on
    end = next(a for row in freely.tolist() for a, b in pairwise(row) if a != b)
    lengths = [row.index(end) + 1 if end in row else 6 for row in freely.tolist()]
    stopped = held.greedy(prompts, 6, end)
    assert stopped.shape[1] == max(lengths)
    for i, (row, before, length) in enumerate(zip(stopped.tolist(), freely.tolist(), lengths, strict=True)):
        assert row[:length] == before[:length] and set(row[length:]) <= {end}
        assert held.greedy(prompts[[i]], 6, end).shape[1] == length


@pytest.mark.parametrize(
    ("output", "exact", "matched"),
    [
        ([4, 5, AND, 6, END], 1.0, 1.0),
        ([4, 5, AND, 6], 0.0, 1.0),
        ([6, AND, 4, 5, END], 0.0, 1.0),  # in another order: matched, not exact
        ([9, 4, 5, END], 0.0, 0.5),
        ([4, AND, 5, 6, END], 0.0, 0.5),  # 4 and 5 are there, but not one after the other
        ([9], 0.0, 0.0),
    ],
)
def test_a_whole_part_of_the_answer_counts_anywhere(output: list[int], exact: float, matched: float) -> None:
    result = _judged(Written([4, 5, AND, 6, END], output), AND, END)
    assert result == {"exact": exact, "matched": matched, "tokens": float(len(output))}


def test_greedy_is_refused_where_nothing_can_be_written(held: Trained, inexact: Trained) -> None:
    ask = Greedy(split="test", rows=None, budget=None)
    with refusal("MQAR (seq_len=8,num_kv_pairs=2) do not follow each other"):
        ask.table(replace(held, task=Limited(held.task, 4)))
    with refusal("attention has no exact decoding"):
        ask.table(replace(inexact, task=Spelled(held.task)))
    table = ask.table(replace(held, task=Spelled(held.task)))
    assert list(table.columns) == ["split", "slice", "seq_len", "exact", "matched", "tokens", "rows"]
    assert table.rows.tolist() == [6]


def test_length_and_load_grow_one_at_a_time(held: Trained) -> None:
    table = Extrapolation(doublings=2, rows=64).table(held)
    grown = table[["varied", "seq_len", "num_kv_pairs"]].itertuples(index=False, name=None)
    # the longest training segment is (12, 3), and 6 pairs do not fit into 12 tokens
    longer = [("seq_len", length, 3) for length in (12, 24, 48)]
    assert list(grown) == [*longer, ("num_kv_pairs", 12, 3)]
    assert set(table.rows) == {64} and set(table.refused) == {""} and table.accuracy.between(0, 1).all()
    for name, least in (("holds_90", 0.9), ("holds_99", 0.99)):
        for varied, series in table.groupby("varied"):
            reached = series.loc[series.accuracy >= least, varied]
            assert set(series[name]) == {0 if reached.empty else reached.max()}


def test_rows_whose_length_follows_grow_with_their_load(held: Trained) -> None:
    ask, load = Extrapolation(doublings=2, rows=4), {"num_nodes": 3, "num_queries": 1}
    table = ask.table(replace(held, task=made.task(Depo, load, names=6, hops=2)))
    grown = table[["varied", "num_nodes", "seq_len"]].itertuples(index=False, name=None)
    assert list(grown) == [("num_nodes", 3, 10), ("num_nodes", 6, 16)]  # 12 need more names
    with refusal("Depo allows no doubling of num_nodes (=3)"):
        ask.table(replace(held, task=made.task(Depo, load, names=5, hops=2)))


def test_a_slice_that_is_too_long_for_the_model_is_refused_and_not_scored(held: Trained) -> None:
    model = deepcopy(held.model)
    model.positions = torch.nn.Parameter(torch.zeros(16, model.embedding.shape[1]))
    table = Extrapolation(doublings=1, rows=4).table(replace(held, model=model))
    message = "model.learned_positions (=16) must cover the sequences: raise it to 24."
    assert table.refused.tolist() == ["", message, ""] and table.seq_len.tolist() == [12, 24, 12]
    assert table.accuracy.isna().tolist() == [False, True, False] and table.rows.tolist() == [4, 0, 4]
    model.positions = torch.nn.Parameter(torch.zeros(8, model.embedding.shape[1]))
    nothing = Extrapolation(doublings=1, rows=4).table(replace(held, model=model))
    assert nothing.loss.isna().all() and set(nothing.holds_90) == {0} and set(nothing.rows) == {0}


def test_a_grid_of_load_and_distance_has_what_fits(held: Trained) -> None:
    table = LoadDistance(loads=None, distances=None, farthest=2, rows=8).table(held)
    cells = list(table[["num_kv_pairs", "distance"]].itertuples(index=False, name=None))
    assert cells == [(2, 4), (2, 8), (2, 16), (4, 8), (4, 16), (8, 16)]
    assert (table.seq_len == table.distance + 2 * table.num_kv_pairs).all()
    assert table.trained.tolist() == [1, 1, 0, 0, 0, 0]  # 2 pairs, rows of 12
    assert (table.guess == 1 / table.num_kv_pairs).all() and table.accuracy.between(0, 1).all()
    assert table.blind.isna().tolist() == [n == 8 for n, _ in cells]  # 11 keys: there are no 8 others
    with pytest.raises(ValueError, match="no distance leaves room for its pairs"):
        LoadDistance(loads=[8], distances=[8], farthest=2, rows=8).table(held)
    keys = made.task(
        KeysMQAR, made.pairs(12, 3), num_keys=20, vocab_size=24, power_a=1.0, num_passes=1, filler="safe"
    )
    with pytest.raises(ValueError, match=r"task.num_keys \(=20\): a probe's rows halve their vocabulary"):
        LoadDistance(loads=[2], distances=[8], farthest=2, rows=8).table(replace(held, task=keys))
    rest = {split: [{"seq_len": 128, "num_examples": 1}] for split in SPLITS}
    ruler = RulerLite(seed=0, subtasks=["vt"], data="fixed", order="sequential", **rest)
    with pytest.raises(ValueError, match="needs pairs, and RulerLite has none"):
        LoadDistance(loads=None, distances=None, farthest=2, rows=8).table(replace(held, task=ruler))


@pytest.mark.parametrize(("pairs", "seq_len"), [(4, 16), (4, 70), (9, 36), (9, 200)])
def test_a_probe_queries_every_pair_and_blinding_hides_the_keys(pairs: int, seq_len: int) -> None:
    examples = torch.arange(300)
    probe = made.task(MQARProbe, made.pairs(seq_len, pairs), vocab_size=64, filler="safe")
    batch = probe.sample("test", 0, examples)
    distance = batch.groups["distance"].double()
    assert (distance.mean(1) == seq_len - 2 * pairs).all()
    assert (distance - distance.mean(1, keepdim=True)).abs().max() == 2 * (pairs - 1)
    assert batch.positions.min() == seq_len - 2 * pairs and batch.positions.max() == seq_len - 2
    others = blinded(batch, 64, examples, 0)
    assert others is not None
    queries = batch.inputs.gather(1, batch.positions)
    keys = others[:, : 2 * pairs : 2]
    assert not (keys[:, :, None] == queries[:, None]).any() and keys.min() >= 1 and keys.max() < 32
    assert all(len(set(row)) == pairs for row in keys.tolist())
    assert others[:, 1 : 2 * pairs : 2].equal(batch.inputs[:, 1 : 2 * pairs : 2])
    assert others[:, 2 * pairs :].equal(batch.inputs[:, 2 * pairs :])
