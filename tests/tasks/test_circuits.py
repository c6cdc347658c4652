"""Copying, circuits, state tracking and MAD: their rows against a slow restatement; the groups."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any
from zlib import crc32

import pytest
import torch

from tests.tasks import restated
from tests.tasks.made import lengths, task
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


def case(
    golden: int,
    restate: Callable[[list[int]], restated.Answers],
    kind: Any,
    load: dict[str, int],
    **settings: Any,
):
    """golden: crc32 of the first eight rows."""
    name = "-".join([kind.__name__, *map(str, settings.values()), *map(str, load.values())])
    return pytest.param(golden, restate, partial(task, kind, load, **settings), id=name)


GROUPS = {
    **{"Z2": (33, 15928830), "Z3": (32, 3948926707), "Z60": (9, 850332403)},
    **{"S3": (40, 4187739954), "S5": (40, 2844496675)},
    **{"A4": (40, 609939450), "A5": (17, 3135892124)},
}
CASES = [
    case(1904544858, restated.copy, Copy, lengths(128, shortest=5, longest=20), letters=26),
    case(497128256, restated.copy, Copy, lengths(23, shortest=10, longest=10), letters=26),
    case(1237857987, partial(restated.copy, letters=2), Copy, lengths(40, shortest=1, longest=3),
         letters=2),
    *(
        case(golden, partial(restated.selective_copy, vocab_size=vocab, count=n), SelectiveCopy,
             lengths(time, num_tokens=n), vocab_size=vocab)
        for golden, vocab, n, time in ((534601927, 16, 8, 64), (4219968115, 4, 5, 10))
    ),
    *(
        case(golden, partial(restated.induction, vocab_size=m), Induction, lengths(time), vocab_size=m)
        for golden, m, time in ((595560448, 16, 64), (1588151774, 3, 3))
    ),
    case(220185328, restated.parity, Parity, lengths(32)),
    case(2441831218, restated.majority, Majority, lengths(33)),
    case(2874482768, restated.cum_majority, CumMajority, lengths(40)),
    case(1955566471, restated.vocab_majority, VocabMajority, lengths(20), vocab_size=8),
    case(3099187839, restated.vocab_majority, VocabMajority, lengths(3), vocab_size=3),
    *(
        case(golden, partial(restated.word_problem, group=group), WordProblem, lengths(time), group=group)
        for group, (time, golden) in GROUPS.items()
    ),
    case(3007605739, restated.flip_flop, FlipFlop, lengths(128, ignore_percent=80)),
    case(2145226681, restated.flip_flop, FlipFlop, lengths(32, ignore_percent=0)),
    *(
        case(golden, partial(restated.flip_flop, depth=depth), Undo,
             lengths(64, ignore_percent=percent, depth=depth))
        for golden, depth, percent in ((673426018, 1, 20), (2345756139, 2, 0), (110275797, 8, 20))
    ),
    *(
        case(golden, partial(restated.in_context_recall, keys=keys, values=values), InContextRecall,
             lengths(time, noise_percent=percent), vocab_size=keys + values + noise, noise_tokens=noise)
        for golden, keys, values, time, percent, noise in (
            (3829508456, 8, 8, 128, 0, 0), (3788688193, 4, 5, 16, 80, 3))
    ),
    *(
        case(golden, partial(restated.fuzzy_recall, keys=7, pad=15, shortest_key=shortest), FuzzyRecall,
             lengths(time, shortest_key=shortest), vocab_size=16)
        for golden, shortest, time in (
            (3942688928, 1, 128), (1517413654, 3, 128),
            (95095301, 2, 12), (1446940658, 1, 13))
    ),
    case(892316751, partial(restated.mad_selective_copying, vocab_size=16, count=16),
         SelectiveCopying, lengths(64, num_tokens=16), vocab_size=16),
    *(
        case(golden, partial(restated.palindrome, vocab_size=9), Palindrome, {"length": length}, vocab_size=9)
        for golden, length in ((3387536274, 2), (1161924879, 9))
    ),
    *(
        case(golden, partial(restated.stack, stacks=n), Stack, {"num_operations": many}, stacks=n, letters=6)
        for golden, n, many in ((3989384617, 1, 12), (4044430507, 5, 30), (1365831110, 9, 2))
    ),
    *(
        case(golden, partial(restated.depo, names=9, hops=hops, nodes=n), Depo,
             {"num_nodes": n, "num_queries": queries}, names=9, hops=hops)
        for golden, n, queries, hops in (
            (2514442761, 2, 2, 1), (1725362322, 5, 3, 12), (844129339, 9, 9, 4))
    ),
    *(
        case(golden, partial(restated.mano, modulus=m), Mano, {"num_operations": n}, modulus=m, times=times)
        for golden, m, n, times in (
            (717794357, 23, 9, True), (838123463, 4, 1, True), (3166439105, 5, 6, False))
    ),
    *(
        case(golden, partial(restated.brackets, modulus=m), Brackets, lengths(time), modulus=m, times=times)
        for golden, m, time, times in (
            (1937809936, 5, 42, False), (1030408745, 4, 31, True),
            (3046890279, 5, 2, False), (2143782118, 5, 3, False),
            (1683018737, 5, 4, False), (4167145882, 5, 5, False),
            (1064713699, 5, 6, False), (2731010627, 5, 7, False),
            (3446506990, 5, 8, False))
    ),
]  # fmt: skip


@pytest.mark.parametrize(("golden", "restate", "build"), CASES)
def test_answers_and_groups_are_those_of_the_restatement(
    golden: int, restate: Any, build: Callable[[], Task]
):
    """The oracle, which sees no more than the past, agrees; and the rows are the golden ones."""
    batch = build().sample("train", 0, range(60))
    oracle = build().oracle(batch.inputs, batch.positions)
    for b, row in enumerate(batch.inputs.tolist()):
        actual = {}
        for a, answer in enumerate(batch.answers[b].tolist()):
            if answer != IGNORED:
                groups = {name: int(values[b, a]) for name, values in batch.groups.items()}
                assert groups.pop("answer", answer) == answer
                actual[int(batch.positions[b, a])] = (answer, groups)
                assert oracle[b, a] == answer
        assert actual == restate(row)
    assert crc32(batch.inputs[:8].numpy().tobytes()) == golden


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
        keys, values = (part.flatten().tolist() for part in (batch.inputs[:, ::2], batch.answers))
        for key, value in zip(keys, values, strict=True):
            assert key < 127 <= value < 255
            assert known.setdefault(key, value) == value
        assert build().oracle(batch.inputs, batch.positions).equal(batch.answers)
    assert len(known) == len(set(known.values())) == 127
    other = build(seed=1)
    assert known != dict(enumerate(other.values.tolist()))


@pytest.mark.parametrize(
    ("name", "order"), [("S3", 6), ("S5", 120), ("A4", 12), ("A5", 60), ("Z3", 3), ("Z60", 60)]
)
def test_a_table_is_a_group(name: str, order: int):
    """It is closed and associative, with element 0 neutral and inverses, and the group of its name."""
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
