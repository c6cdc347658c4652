"""Copying, circuits, state tracking and MAD: their rows against a slow restatement; the groups."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any
from zlib import crc32

import pytest
import torch

from tests.tasks import restated
from tests.tasks.made import task
from zoo.tasks.base import IGNORED, Task
from zoo.tasks.circuits import CumMajority, Majority, Parity, VocabMajority
from zoo.tasks.copying import Copy, SelectiveCopy
from zoo.tasks.depo import Depo
from zoo.tasks.expressions import Brackets, Mano
from zoo.tasks.flip_flop import FlipFlop, Undo
from zoo.tasks.induction import Induction
from zoo.tasks.mad_memory import Compression, Memorisation, SelectiveCopying
from zoo.tasks.mad_recall import FuzzyRecall, InContextRecall
from zoo.tasks.stacks import Palindrome, Stack
from zoo.tasks.state_tracking import WordProblem, table


def case(says: Callable[[list[int]], restated.Asked], kind: Any, load: dict[str, int], **settings: Any):
    name = "-".join([kind.__name__, *map(str, settings.values()), *map(str, load.values())])
    return pytest.param(says, name, partial(task, kind, load, **settings), id=name)


CASES = [
    case(restated.copy, Copy, {"seq_len": 128, "shortest": 5, "longest": 20}, letters=26),
    case(restated.copy, Copy, {"seq_len": 23, "shortest": 10, "longest": 10}, letters=26),
    case(partial(restated.copy, letters=2), Copy, {"seq_len": 40, "shortest": 1, "longest": 3}, letters=2),
    case(
        partial(restated.selective_copy, vocab_size=16, count=8),
        SelectiveCopy,
        {"seq_len": 64, "num_tokens": 8},
        vocab_size=16,
    ),
    case(
        partial(restated.selective_copy, vocab_size=4, count=5),
        SelectiveCopy,
        {"seq_len": 10, "num_tokens": 5},
        vocab_size=4,
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
        for group, time in {"Z2": 33, "Z3": 32, "Z60": 9, "S3": 40, "A4": 40, "A5": 17, "S5": 40}.items()
    ),
    case(restated.flip_flop, FlipFlop, {"seq_len": 128, "ignore_percent": 80}),
    case(restated.flip_flop, FlipFlop, {"seq_len": 32, "ignore_percent": 0}),
    *(
        case(
            partial(restated.flip_flop, depth=depth),
            Undo,
            {"seq_len": 64, "ignore_percent": percent, "depth": depth},
        )
        for depth, percent in ((1, 20), (2, 0), (8, 20))
    ),
    case(
        partial(restated.in_context_recall, keys=8, values=8),
        InContextRecall,
        {"seq_len": 128, "noise_percent": 0},
        vocab_size=16,
        noise_tokens=0,
    ),
    case(
        partial(restated.in_context_recall, keys=4, values=5),
        InContextRecall,
        {"seq_len": 16, "noise_percent": 80},
        vocab_size=12,
        noise_tokens=3,
    ),
    *(
        case(
            partial(restated.fuzzy_recall, keys=7, pad=15, shortest_key=shortest),
            FuzzyRecall,
            {"seq_len": time, "shortest_key": shortest},
            vocab_size=16,
        )
        for shortest, time in ((1, 128), (3, 128), (2, 12), (1, 13))
    ),
    case(
        partial(restated.mad_selective_copying, vocab_size=16, count=16),
        SelectiveCopying,
        {"seq_len": 64, "num_tokens": 16},
        vocab_size=16,
    ),
    *(
        case(partial(restated.palindrome, vocab_size=9), Palindrome, {"length": length}, vocab_size=9)
        for length in (2, 9)
    ),
    *(
        case(partial(restated.stack, stacks=stacks), Stack, {"num_operations": n}, stacks=stacks, letters=6)
        for stacks, n in ((1, 12), (5, 30), (9, 2))
    ),
    *(
        case(
            partial(restated.depo, names=9, hops=hops, nodes=n),
            Depo,
            {"num_nodes": n, "num_queries": queries},
            names=9,
            hops=hops,
        )
        for n, queries, hops in ((2, 2, 1), (5, 3, 12), (9, 9, 4))
    ),
    *(
        case(partial(restated.mano, modulus=m), Mano, {"num_operations": n}, modulus=m, times=times)
        for m, n, times in ((23, 9, True), (4, 1, True), (5, 6, False))
    ),
    *(
        case(partial(restated.brackets, modulus=m), Brackets, {"seq_len": time}, modulus=m, times=times)
        for m, time, times in ((5, 42, False), (4, 31, True), *((5, short, False) for short in range(2, 9)))
    ),
]


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
                assert groups.pop("answer", answer) == answer
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
        for key, value in zip(
            batch.inputs[:, ::2].flatten().tolist(), batch.answers.flatten().tolist(), strict=True
        ):
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
    "Stack-1-6-12": 3989384617,
    "Stack-5-6-30": 4044430507,
    "Stack-9-6-2": 1365831110,
    "Palindrome-9-2": 3387536274,
    "Palindrome-9-9": 1161924879,
    "Depo-9-1-2-2": 2514442761,
    "Depo-9-12-5-3": 1725362322,
    "Depo-9-4-9-9": 844129339,
    "Mano-23-True-9": 717794357,
    "Mano-4-True-1": 838123463,
    "Mano-5-False-6": 3166439105,
    "Brackets-5-False-42": 1937809936,
    "Brackets-4-True-31": 1030408745,
    "Brackets-5-False-2": 3046890279,
    "Brackets-5-False-3": 2143782118,
    "Brackets-5-False-4": 1683018737,
    "Brackets-5-False-5": 4167145882,
    "Brackets-5-False-6": 1064713699,
    "Brackets-5-False-7": 2731010627,
    "Brackets-5-False-8": 3446506990,
}


# groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "order"), [("S3", 6), ("S5", 120), ("A4", 12), ("A5", 60), ("Z3", 3), ("Z60", 60)]
)
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
