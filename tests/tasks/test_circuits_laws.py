"""Copying, circuits, state tracking and MAD: laws of their draws, chance, refusals."""

from itertools import product
from typing import Any

import pytest
import torch

from tests.tasks.laws import ALPHA, chi2
from tests.tasks.made import one_line, rows, task
from zoo.tasks.base import IGNORED
from zoo.tasks.circuits import CumMajority, Majority, Parity, VocabMajority, first_wins
from zoo.tasks.copying import Copy, SelectiveCopy
from zoo.tasks.flip_flop import IGNORE, READ, UNDO, WRITE, FlipFlop, Undo
from zoo.tasks.induction import Induction
from zoo.tasks.mad_memory import Compression, Memorisation, SelectiveCopying
from zoo.tasks.mad_recall import FuzzyRecall, InContextRecall
from zoo.tasks.sampling import first_seen, last_seen
from zoo.tasks.state_tracking import WordProblem


def test_lengths_and_letters_of_copies_are_uniform():
    batch = rows(Copy, {"seq_len": 20, "shortest": 2, "longest": 8}, 7000, letters=5)
    assert chi2((batch.inputs == 6).long().argmax(1) - 3, torch.ones(7)) > ALPHA
    assert chi2(batch.inputs[:, 1], torch.ones(5)) > ALPHA
    assert chi2(batch.inputs[:, 1] * 5 + batch.inputs[:, 2], torch.ones(25)) > ALPHA


def test_every_choice_of_places_for_the_data_is_equally_likely():
    batch = rows(SelectiveCopy, {"seq_len": 9, "num_tokens": 3}, 8000, vocab_size=6)
    there = (batch.inputs[:, :6] > 0).long() @ (2 ** torch.arange(6))
    _, index = there.unique(return_inverse=True)
    assert chi2(index, torch.ones(20)) > ALPHA  # 6 choose 3
    assert chi2(batch.answers - 1, torch.ones(4)) > ALPHA


def test_blanks_fall_in_front_of_any_data_token_alike():
    batch = rows(SelectiveCopying, {"seq_len": 17, "num_tokens": 3}, 5000, vocab_size=6)
    distance = batch.groups["distance"]  # of answer j: 4 + j - place, ...
    places = batch.positions - distance
    before = torch.stack([places[:, 0], *(places[:, i] - places[:, i - 1] - 1 for i in (1, 2))], 1)
    assert (before.sum(1) == 10).all()
    halves = torch.tensor([1, 10, 45, 120, 210, 252, 210, 120, 45, 10, 1.0])
    for i in range(3):
        law = halves * torch.tensor([(1 / 3) ** k * (2 / 3) ** (10 - k) for k in range(11)])
        assert chi2(before[:, i].clamp(max=7), [*law[:7], law[7:].sum()]) > ALPHA


def test_the_special_token_stands_anywhere_and_what_follows_is_uniform():
    batch = rows(Induction, {"seq_len": 12}, 6000, vocab_size=8)
    assert chi2(batch.groups["distance"] - 2, torch.ones(10)) > ALPHA
    assert chi2(batch.answers, torch.ones(7)) > ALPHA


@pytest.mark.parametrize(("count", "symbols"), [(4, 3), (5, 2), (7, 3), (3, 5)])
def test_the_chance_that_no_token_beats_the_first_is_counted_right(count: int, symbols: int):
    wins = sum(
        row.count(0) == max(map(row.count, range(symbols))) for row in product(range(symbols), repeat=count)
    )
    assert first_wins(count, symbols) == pytest.approx(wins / symbols**count)


@pytest.mark.parametrize(
    ("kind", "load", "settings"),
    [
        (Majority, {"seq_len": 9}, {}),
        (CumMajority, {"seq_len": 12}, {}),
        (VocabMajority, {"seq_len": 12}, {"vocab_size": 5}),
    ],
)
def test_chance_is_what_the_most_frequent_answer_gets(
    kind: Any, load: dict[str, int], settings: dict[str, int]
):
    made = task(kind, load, **settings)
    answers = made.sample("train", 0, range(20_000)).answers
    answers = answers[answers != IGNORED]
    share = answers.bincount().max() / len(answers)
    assert made.chance(made.segments("train")[0]) == pytest.approx(share.item(), abs=0.02)


def test_products_are_uniform_and_independent_of_the_last_token():
    batch = rows(WordProblem, {"seq_len": 5}, 8000, group="S3")
    assert chi2(batch.answers[:, -1] * 6 + batch.inputs[:, -1], torch.ones(36)) > ALPHA


@pytest.mark.parametrize("percent", [10, 80, 98])
def test_instructions_have_their_shares(percent: int):
    batch = rows(FlipFlop, {"seq_len": 64, "ignore_percent": percent}, 1000)
    acts = batch.inputs[:, 2:-2:2]
    rest = (100 - percent) / 2
    assert chi2(acts - WRITE, [rest, rest, percent]) > ALPHA
    assert chi2(batch.inputs[:, 1:-2:2], torch.ones(2)) > ALPHA


def test_undos_come_as_often_as_writes_where_there_is_history():
    acts = rows(Undo, {"seq_len": 8, "ignore_percent": 10, "depth": 3}, 20_000).inputs[:, ::2]
    assert set(acts[:, 1].tolist()) == {WRITE, READ, IGNORE}, "nothing to undo after the first write"
    second = acts[acts[:, 1] == WRITE][:, 2]
    assert chi2(second - WRITE, [30, 30, 10, 30]) > ALPHA
    assert (second == UNDO).any()


def test_a_noisy_row_has_its_share_of_noise_and_always_a_pair():
    batch = rows(InContextRecall, {"seq_len": 12, "noise_percent": 60}, 8000, vocab_size=16, noise_tokens=8)
    noise = (batch.inputs[:, :-2:2] >= 8).sum(1)  # of five pairs one is spared
    assert chi2(noise, [0.4**4, 4 * 0.6 * 0.4**3, 6 * 0.6**2 * 0.4**2, 4 * 0.6**3 * 0.4, 0.6**4]) > ALPHA
    assert chi2(batch.inputs[batch.inputs >= 8] - 8, torch.ones(8)) > ALPHA
    assert chi2(batch.inputs[:, -2:], [1, 1, 1, 1, 1, 1, 1, 1]) > ALPHA


def test_fuzzy_motifs_are_uniform_over_sizes_and_orders():
    # keys 0-3, values 4-7
    batch = rows(FuzzyRecall, {"seq_len": 12, "shortest_key": 3}, 24_000, vocab_size=9)
    start = (batch.inputs != 8).long().argmax(1, keepdim=True)
    key = batch.inputs.gather(1, start + torch.arange(3))
    _, index = (key @ torch.tensor([16, 4, 1])).unique(return_inverse=True)
    assert chi2(index, torch.ones(24)) > ALPHA
    sizes = (12 - start - 6) // 2
    assert chi2(sizes - 1, torch.ones(3)) > ALPHA
    short = rows(FuzzyRecall, {"seq_len": 30, "shortest_key": 1}, 3000, vocab_size=9)
    begin = (short.inputs != 8).long().argmax(1, keepdim=True)
    first = short.inputs.gather(1, begin + torch.arange(3))
    assert chi2((first < 4).long().cumprod(1).sum(1) - 1, torch.ones(3)) > ALPHA


def test_the_last_pair_of_a_fuzzy_row_is_any_of_those_before():
    batch = rows(FuzzyRecall, {"seq_len": 24, "shortest_key": 3}, 3000, vocab_size=64)
    turns = []
    for row in batch.inputs.tolist():
        keys = [row[t : t + 3] for t in range(22) if row[t] < 31 and (t == 0 or row[t - 1] >= 31)]
        if len(keys) == 4:
            turns.append(keys.index(keys[-1]))
    assert chi2(torch.tensor(turns), torch.ones(3)) > ALPHA


def test_first_and_last_places_of_equal_tokens():
    tokens = torch.tensor([[3, 1, 3, 3, 1, 7]])
    assert last_seen(tokens).tolist() == [[-1, -1, 0, 2, 1, -1]]
    assert first_seen(tokens).tolist() == [[0, 1, 0, 0, 1, 5]]


MIXED = {"seq_len": 8, "noise_percent": 20}


@pytest.mark.parametrize(
    ("kind", "load", "settings", "words"),
    [
        (Copy, {"seq_len": 20, "shortest": 2, "longest": 10}, {"letters": 26}, "seq_len (=20).. use 23"),
        (Copy, {"seq_len": 20, "shortest": 5, "longest": 4}, {"letters": 26}, "(=4) must be at least"),
        (SelectiveCopy, {"seq_len": 9, "num_tokens": 5}, {"vocab_size": 16}, "seq_len (=9) .. use 10"),
        (SelectiveCopying, {"seq_len": 9, "num_tokens": 4}, {"vocab_size": 16}, "seq_len (=9).. use 10"),
        (Induction, {"seq_len": 2}, {"vocab_size": 16}, "seq_len (=2) must be at least 3"),
        (Parity, {"seq_len": 1}, {}, "seq_len (=1) must be at least 2"),
        (WordProblem, {"seq_len": 8}, {"group": "S9"}, "group (='S9') must be one of S2 to S6, A3"),
        (FlipFlop, {"seq_len": 9, "ignore_percent": 80}, {}, "seq_len (=9) must be even; use 10"),
        (FlipFlop, {"seq_len": 8, "ignore_percent": 100}, {}, "ignore_percent (=100) must be .. below"),
        (Undo, {"seq_len": 8, "ignore_percent": 10, "depth": 0}, {}, "depth (=0) must be at least 1"),
        (InContextRecall, MIXED, {"vocab_size": 16, "noise_tokens": 0}, "(=20) needs task.noise_tokens"),
        (InContextRecall, MIXED, {"vocab_size": 16, "noise_tokens": 16}, "(=16) must be at least 20"),
        (FuzzyRecall, {"seq_len": 128, "shortest_key": 1}, {"vocab_size": 6}, "(=6) must be between"),
        (FuzzyRecall, {"seq_len": 11, "shortest_key": 1}, {"vocab_size": 16}, "(=11) must be at least 12"),
        (FuzzyRecall, {"seq_len": 12, "shortest_key": 4}, {"vocab_size": 16}, "(=4) must be between"),
        (Memorisation, {"seq_len": 7}, {"vocab_size": 256}, "seq_len (=7) must be even; use 8"),
        (Compression, {"seq_len": 1}, {"vocab_size": 16}, "seq_len (=1) must be at least 2"),
        (VocabMajority, {"seq_len": 8}, {"vocab_size": 2}, "vocab_size (=2) must be at least 3"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(
    kind: Any, load: dict[str, int], settings: dict[str, Any], words: str
):
    with pytest.raises(ValueError, match=one_line(words)):
        task(kind, load, **settings)
