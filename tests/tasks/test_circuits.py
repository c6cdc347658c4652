"""Copying, circuits, state tracking and MAD: rows against a slow restatement, laws of the draws, refusals."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any
from zlib import crc32

import pytest
import torch

from tests.tasks import restated
from tests.tasks.laws import ALPHA, chi2
from zoo.tasks.base import IGNORED, Batch, Task
from zoo.tasks.circuits import CumMajority, Majority, Parity, VocabMajority, first_wins
from zoo.tasks.copying import Copy, SelectiveCopy
from zoo.tasks.flip_flop import IGNORE, READ, UNDO, WRITE, FlipFlop, Undo
from zoo.tasks.induction import Induction
from zoo.tasks.mad_memory import Compression, Memorisation, SelectiveCopying
from zoo.tasks.mad_recall import FuzzyRecall, InContextRecall
from zoo.tasks.permutations import table
from zoo.tasks.sampling import first_seen, last_seen
from zoo.tasks.state_tracking import WordProblem


def task(kind: Callable[..., Task], load: dict[str, int], **settings: Any) -> Task:
    segment = [load | {"num_examples": 10}]
    mixture = {"data": "fixed", "order": "sequential"} | dict.fromkeys(("train", "valid", "test"), segment)
    return kind(seed=0, **mixture, **settings)


def rows(kind: Callable[..., Task], load: dict[str, int], count: int, **settings: Any) -> Batch:
    return task(kind, load, **settings).sample("train", 0, range(count))


def case(says: Callable[[list[int]], restated.Asked], kind: Any, load: dict[str, int], **settings: Any):
    name = "-".join([kind.__name__, *map(str, settings.values()), *map(str, load.values())])
    return pytest.param(says, name, partial(task, kind, load, **settings), id=name)


CASES = [
    case(restated.copy, Copy, {"seq_len": 128, "shortest": 5, "longest": 20}, letters=26),
    case(restated.copy, Copy, {"seq_len": 23, "shortest": 10, "longest": 10}, letters=26),
    case(partial(restated.copy, letters=2), Copy, {"seq_len": 40, "shortest": 1, "longest": 3}, letters=2),
    case(
        partial(restated.selective_copy, vocab_size=16, count=8),
        SelectiveCopy, {"seq_len": 64, "num_tokens": 8}, vocab_size=16,
    ),
    case(
        partial(restated.selective_copy, vocab_size=4, count=5),
        SelectiveCopy, {"seq_len": 10, "num_tokens": 5}, vocab_size=4,
    ),
    case(partial(restated.induction, vocab_size=16), Induction, {"seq_len": 64}, vocab_size=16),
    case(partial(restated.induction, vocab_size=3), Induction, {"seq_len": 3}, vocab_size=3),
    case(restated.parity, Parity, {"seq_len": 32}),
    case(restated.majority, Majority, {"seq_len": 33}),
    case(restated.cum_majority, CumMajority, {"seq_len": 40}),
    case(restated.vocab_majority, VocabMajority, {"seq_len": 20}, vocab_size=8),
    case(restated.vocab_majority, VocabMajority, {"seq_len": 3}, vocab_size=3),
    *(
        case(partial(restated.word_problem, group=group), WordProblem, {"seq_len": time}, group=group)
        for group, time in (("Z2", 33), ("Z3", 32), ("Z60", 9), ("S3", 40), ("A4", 40), ("A5", 17), ("S5", 40))
    ),
    case(restated.flip_flop, FlipFlop, {"seq_len": 128, "ignore_percent": 80}),
    case(restated.flip_flop, FlipFlop, {"seq_len": 32, "ignore_percent": 0}),
    *(
        case(
            partial(restated.flip_flop, depth=depth),
            Undo, {"seq_len": 64, "ignore_percent": percent, "depth": depth},
        )
        for depth, percent in ((1, 20), (2, 0), (8, 20))
    ),
    case(
        partial(restated.in_context_recall, keys=8, values=8),
        InContextRecall, {"seq_len": 128, "noise_percent": 0}, vocab_size=16, noise_tokens=0,
    ),
    case(
        partial(restated.in_context_recall, keys=4, values=5),
        InContextRecall, {"seq_len": 16, "noise_percent": 80}, vocab_size=12, noise_tokens=3,
    ),
    *(
        case(
            partial(restated.fuzzy_recall, keys=7, pad=15, shortest_key=shortest),
            FuzzyRecall, {"seq_len": time, "shortest_key": shortest}, vocab_size=16,
        )
        for shortest, time in ((1, 128), (3, 128), (2, 12), (1, 13))
    ),
    case(
        partial(restated.mad_selective_copying, vocab_size=16, count=16),
        SelectiveCopying, {"seq_len": 64, "num_tokens": 16}, vocab_size=16,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("says", "name", "build"), CASES)
def test_a_row_asks_what_its_restatement_says(says: Any, name: str, build: Callable[[], Task]):
    """And the oracle, which sees no more than the past, says the same; and the rows stay what they are."""
    batch = build().sample("train", 0, range(60))
    oracle = build().oracle(batch.inputs, batch.positions)
    for b, row in enumerate(batch.inputs.tolist()):
        found = {}
        for a, answer in enumerate(batch.answers[b].tolist()):
            if answer != IGNORED:
                groups = {name: int(values[b, a]) for name, values in batch.groups.items()}
                found[int(batch.positions[b, a])] = (answer, groups)
                assert oracle[b, a] == answer
        assert found == says(row)
    assert crc32(batch.inputs[:8].numpy().tobytes()) == GOLDEN[name]


def test_compression_asks_for_every_token_at_the_end():
    build = partial(task, Compression, {"seq_len": 32}, vocab_size=16)
    batch = build().sample("test", 0, range(20))
    assert (batch.positions == 31).all()
    assert batch.answers.tolist() == [restated.compression(row, 16) for row in batch.inputs.tolist()]
    assert build().oracle(batch.inputs, batch.positions).equal(batch.answers)


def test_a_memorised_map_is_one_to_one_the_same_in_all_splits_and_of_the_seed():
    build = partial(task, Memorisation, {"seq_len": 32}, vocab_size=256)
    known: dict[int, int] = {}
    for split in ("train", "valid", "test"):
        batch = build().sample(split, 0, range(100))
        assert (batch.inputs[:, 1::2] == 255).all() and (batch.positions == torch.arange(1, 32, 2)).all()
        for key, value in zip(batch.inputs[:, ::2].flatten().tolist(), batch.answers.flatten().tolist(), strict=True):
            assert key < 127 <= value < 255
            assert known.setdefault(key, value) == value
        assert build().oracle(batch.inputs, batch.positions).equal(batch.answers)
    assert len(known) == len(set(known.values())) == 127
    other = Memorisation(seed=1, vocab_size=256, data="fixed", order="shuffled", **{
        split: [{"seq_len": 32, "num_examples": 1}] for split in ("train", "valid", "test")
    })  # fmt: skip
    assert known != dict(enumerate(other.values.tolist()))


GOLDEN = {  # crc32 of the first eight rows
    "Copy-26-128-5-20": 1904544858,
    "Copy-26-23-10-10": 497128256,
    "Copy-2-40-1-3": 1237857987,
    "SelectiveCopy-16-64-8": 534601927,
    "SelectiveCopy-4-10-5": 4219968115,
    "Induction-16-64": 595560448,
    "Induction-3-3": 1588151774,
    "Parity-32": 220185328,
    "Majority-33": 2441831218,
    "CumMajority-40": 2874482768,
    "VocabMajority-8-20": 1955566471,
    "VocabMajority-3-3": 3099187839,
    "WordProblem-Z2-33": 15928830,
    "WordProblem-Z3-32": 3948926707,
    "WordProblem-Z60-9": 850332403,
    "WordProblem-S3-40": 4187739954,
    "WordProblem-A4-40": 609939450,
    "WordProblem-A5-17": 3135892124,
    "WordProblem-S5-40": 2844496675,
    "FlipFlop-128-80": 3007605739,
    "FlipFlop-32-0": 2145226681,
    "Undo-64-20-1": 673426018,
    "Undo-64-0-2": 2345756139,
    "Undo-64-20-8": 110275797,
    "InContextRecall-16-0-128-0": 3829508456,
    "InContextRecall-12-3-16-80": 3788688193,
    "FuzzyRecall-16-128-1": 3942688928,
    "FuzzyRecall-16-128-3": 1517413654,
    "FuzzyRecall-16-12-2": 95095301,
    "FuzzyRecall-16-13-1": 1446940658,
    "SelectiveCopying-16-64-16": 892316751,
}


# groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "order"), [("S3", 6), ("S5", 120), ("A4", 12), ("A5", 60), ("Z3", 3), ("Z60", 60)])
def test_a_table_is_a_group(name: str, order: int):
    """Closed, associative, with element 0 neutral and inverses: and it is the group that its name says."""
    product_of = table(name)
    assert product_of.shape == (order, order)
    everything = torch.arange(order)
    assert product_of[0].equal(everything) and product_of[:, 0].equal(everything)
    for line in (*product_of, *product_of.T):
        assert line.sort().values.equal(everything)
    left = product_of[product_of]  # [a, b, c] = (a b) c
    assert left.equal(product_of[everything[:, None, None], product_of])
    assert product_of.equal(product_of.T) == name.startswith("Z")
    moves = restated.elements(name)
    for a, b in product(range(0, order, 7), range(order)):
        assert moves[int(product_of[a, b])] == tuple(moves[b][i] for i in moves[a])


# laws of the draws ---------------------------------------------------------------------------------------


def test_lengths_and_letters_of_copies_are_uniform():
    batch = rows(Copy, {"seq_len": 20, "shortest": 2, "longest": 8}, 7000, letters=5)
    assert chi2((batch.inputs == 6).long().argmax(1) - 3, torch.ones(7)) > ALPHA
    assert chi2(batch.inputs[:, 1], torch.ones(5)) > ALPHA
    assert chi2(batch.inputs[:, 1] * 5 + batch.inputs[:, 2], torch.ones(25)) > ALPHA


def test_every_choice_of_places_for_the_data_is_as_likely():
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
    wins = sum(row.count(0) == max(map(row.count, range(symbols))) for row in product(range(symbols), repeat=count))
    assert first_wins(count, symbols) == pytest.approx(wins / symbols**count)


@pytest.mark.parametrize(
    ("kind", "load", "settings"),
    [
        (Majority, {"seq_len": 9}, {}),
        (CumMajority, {"seq_len": 12}, {}),
        (VocabMajority, {"seq_len": 12}, {"vocab_size": 5}),
        (Copy, {"seq_len": 15, "shortest": 2, "longest": 6}, {"letters": 30}),
    ],
)
def test_chance_is_what_the_most_frequent_answer_gets(kind: Any, load: dict[str, int], settings: dict[str, int]):
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
    batch = rows(FuzzyRecall, {"seq_len": 12, "shortest_key": 3}, 24_000, vocab_size=9)  # keys 0-3, values 4-7
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


def test_places_of_the_same_are_found():
    tokens = torch.tensor([[3, 1, 3, 3, 1, 7]])
    assert last_seen(tokens).tolist() == [[-1, -1, 0, 2, 1, -1]]
    assert first_seen(tokens).tolist() == [[0, 1, 0, 0, 1, 5]]


# refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "load", "settings", "words"),
    [
        (Copy, {"seq_len": 20, "shortest": 2, "longest": 10}, {"letters": 26}, r"seq_len \(=20\).* use 23"),
        (Copy, {"seq_len": 20, "shortest": 5, "longest": 4}, {"letters": 26}, r"longest \(=4\) must be at least 5"),
        (Copy, {"seq_len": 20, "shortest": 5, "longest": 4}, {"letters": 1}, r"letters \(=1\) must be at least 2"),
        (SelectiveCopy, {"seq_len": 9, "num_tokens": 5}, {"vocab_size": 16}, r"seq_len \(=9\) is too short.* use 10"),
        (SelectiveCopy, {"seq_len": 9, "num_tokens": 4}, {"vocab_size": 3}, r"vocab_size \(=3\) must be at least 4"),
        (SelectiveCopying, {"seq_len": 9, "num_tokens": 4}, {"vocab_size": 16}, r"seq_len \(=9\).* use 10"),
        (Induction, {"seq_len": 2}, {"vocab_size": 16}, r"seq_len \(=2\) must be at least 3"),
        (Parity, {"seq_len": 1}, {}, r"seq_len \(=1\) must be at least 2"),
        (WordProblem, {"seq_len": 8}, {"group": "Q8"}, r"group \(='Q8'\) must be one of S2 to S6, A3"),
        (WordProblem, {"seq_len": 8}, {"group": "S9"}, r"group \(='S9'\) must be one of"),
        (WordProblem, {"seq_len": 8}, {"group": "Z1"}, r"group \(='Z1'\) must be one of"),
        (FlipFlop, {"seq_len": 9, "ignore_percent": 80}, {}, r"seq_len \(=9\) must be even; use 10"),
        (FlipFlop, {"seq_len": 8, "ignore_percent": 100}, {}, r"ignore_percent \(=100\) must be at least 0 and below"),
        (Undo, {"seq_len": 8, "ignore_percent": 10, "depth": 0}, {}, r"depth \(=0\) must be at least 1"),
        (
            InContextRecall, {"seq_len": 8, "noise_percent": 20}, {"vocab_size": 16, "noise_tokens": 0},
            r"noise_percent \(=20\) needs task.noise_tokens",
        ),
        (
            InContextRecall, {"seq_len": 8, "noise_percent": 20}, {"vocab_size": 16, "noise_tokens": 16},
            r"vocab_size \(=16\) must be at least 20",
        ),
        (FuzzyRecall, {"seq_len": 128, "shortest_key": 1}, {"vocab_size": 6}, r"vocab_size \(=6\) must be between"),
        (FuzzyRecall, {"seq_len": 11, "shortest_key": 1}, {"vocab_size": 16}, r"seq_len \(=11\) must be at least 12"),
        (FuzzyRecall, {"seq_len": 12, "shortest_key": 4}, {"vocab_size": 16}, r"shortest_key \(=4\) must be between"),
        (Memorisation, {"seq_len": 7}, {"vocab_size": 256}, r"seq_len \(=7\) must be even; use 8"),
        (Memorisation, {"seq_len": 8}, {"vocab_size": 4}, r"vocab_size \(=4\) must be at least 5"),
        (Compression, {"seq_len": 1}, {"vocab_size": 16}, r"seq_len \(=1\) must be at least 2"),
        (VocabMajority, {"seq_len": 8}, {"vocab_size": 2}, r"vocab_size \(=2\) must be at least 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(kind: Any, load: dict[str, int], settings: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words) as refusal:
        task(kind, load, **settings)
    assert "\n" not in str(refusal.value)
