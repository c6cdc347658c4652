"""The bits that a state must hold, counted over all rows of tiny tasks."""

from collections import defaultdict
from collections.abc import Callable
from math import log2
from typing import Any

import pytest

from tests.tasks.made import lengths, pairs, task
from zoo.tasks import laws
from zoo.tasks.ar_single import RepeatedPairs, SingleQuestion
from zoo.tasks.base import Batch, Task
from zoo.tasks.circuits import CumMajority, Majority, Parity
from zoo.tasks.copying import Copy, SelectiveCopy
from zoo.tasks.counting import Goes, continuations, distinct, enough_states
from zoo.tasks.depo import Depo
from zoo.tasks.expressions import Brackets, Mano
from zoo.tasks.flip_flop import FlipFlop, Undo
from zoo.tasks.induction import Induction
from zoo.tasks.mad_memory import Compression, Memorisation, SelectiveCopying
from zoo.tasks.mad_recall import FuzzyRecall, InContextRecall
from zoo.tasks.mqar import MQAR
from zoo.tasks.mqar_overwrite import OverwrittenMQAR
from zoo.tasks.mqar_probe import MQARProbe
from zoo.tasks.mqar_stacked import StackedMQAR
from zoo.tasks.mqar_unseen import UnseenMQAR
from zoo.tasks.mqar_update import UpdatedMQAR
from zoo.tasks.ngram_ar import NgramRecall
from zoo.tasks.noisy_ar import NoisyMQAR
from zoo.tasks.set_disjoint import SetDisjoint
from zoo.tasks.stacks import Palindrome, Stack
from zoo.tasks.state_tracking import WordProblem

ROWS, STARTS = 3000, 8  # rows: many times what there are
LATER = {"power_a": 1.0, "filler": "blank"}


CASES: list[tuple[Callable[..., Task], dict[str, int], dict[str, Any]]] = [
    (Parity, lengths(6), {}),
    (Majority, lengths(6), {}),
    (Majority, lengths(7), {}),
    (CumMajority, lengths(6), {}),
    (CumMajority, lengths(7), {}),
    (WordProblem, lengths(4), {"group": "Z2"}),
    (WordProblem, lengths(4), {"group": "S3"}),
    (Copy, {"seq_len": 9, "shortest": 1, "longest": 3}, {"letters": 3}),
    (SelectiveCopy, {"seq_len": 7, "num_tokens": 2}, {"vocab_size": 5}),
    (SelectiveCopying, {"seq_len": 8, "num_tokens": 2}, {"vocab_size": 5}),
    (Compression, lengths(4), {"vocab_size": 4}),
    (Memorisation, lengths(6), {"vocab_size": 9}),
    (Induction, lengths(5), {"vocab_size": 4}),
    (Induction, lengths(3), {"vocab_size": 4}),
    (FlipFlop, {"seq_len": 8, "ignore_percent": 20}, {}),
    (FlipFlop, {"seq_len": 4, "ignore_percent": 20}, {}),
    (Undo, {"seq_len": 8, "ignore_percent": 5, "depth": 5}, {}),
    (SingleQuestion, pairs(5, 2), {"vocab_size": 8, "filler": "blank"}),
    (RepeatedPairs, pairs(8, 3), {"vocab_size": 5}),
    (MQAR, pairs(8, 2), {"vocab_size": 8, "num_passes": 1, **LATER}),
    (MQAR, pairs(12, 2), {"vocab_size": 6, "num_passes": 2, **LATER}),
    (MQARProbe, pairs(10, 2), {"vocab_size": 8, "filler": "safe"}),
    (UpdatedMQAR, pairs(10, 2), {"vocab_size": 8, "num_updates": 1, **LATER}),
    (OverwrittenMQAR, {**pairs(12, 2), "overwrites": 1}, {"vocab_size": 8, **LATER}),
    (StackedMQAR, {"num_kv_pairs": 2}, {"vocab_size": 8, "num_passes": 1}),
    (NoisyMQAR, pairs(8, 2), {"vocab_size": 8, "noise": 0.3, "noise_tokens": 1, **LATER}),
    (NoisyMQAR, pairs(8, 2), {"vocab_size": 8, "noise": 1.0, "noise_tokens": 1, **LATER}),
    (UnseenMQAR, pairs(4, 1), {"vocab_size": 9, "unseen": 0.5, **LATER}),
    (UnseenMQAR, pairs(4, 1), {"vocab_size": 9, "unseen": 0.0, **LATER}),
    (UnseenMQAR, pairs(4, 1), {"vocab_size": 9, "unseen": 1.0, **LATER}),
    (InContextRecall, {"seq_len": 8, "noise_percent": 0}, {"vocab_size": 5, "noise_tokens": 0}),
    (InContextRecall, {"seq_len": 6, "noise_percent": 100}, {"vocab_size": 6, "noise_tokens": 2}),
    (SetDisjoint, {"first_set": 2, "second_set": 2}, {"vocab_size": 8, "num_passes": 1}),
    (Palindrome, {"length": 3}, {"vocab_size": 4}),
    *((Stack, {"num_operations": n}, {"stacks": 1, "letters": 3}) for n in (2, 4)),
    (Depo, {"num_nodes": 3, "num_queries": 1}, {"names": 3, "hops": 2}),
    (Depo, {"num_nodes": 4, "num_queries": 1}, {"names": 4, "hops": 1}),
    (Brackets, lengths(6), {"modulus": 3, "times": False}),
    (Brackets, lengths(4), {"modulus": 3, "times": False}),
    (SetDisjoint, {"first_set": 2, "second_set": 1}, {"vocab_size": 8, "num_passes": 1}),
]
MORE = [  # the stated bits are fewer than those of the beginnings that can be distinguished
    (NgramRecall, {"seq_len": 12, "shortest": 4, "longest": 4, "strings": 1}, 
     {"vocab_size": 7, "form": form, "ngram": 1, "answer_length": None}) for form in ("suffix", "prefix")
]  # fmt: skip
MORE += [(Undo, {"seq_len": 12, "ignore_percent": 5, "depth": 1}, {})]
MORE += [(Stack, {"num_operations": 4}, {"stacks": 2, "letters": 2})]
MORE += [(Mano, {"num_operations": n}, {"modulus": 3, "times": True}) for n in (1, 2)]
MORE += [(FuzzyRecall, {"seq_len": 12, "shortest_key": 3}, {"vocab_size": 7})]


def distinguishable(batch: Batch, decoder: bool) -> int:
    """Return the most beginnings of one length, any two of which a common continuation distinguishes."""
    most = 1
    for place in range(1, batch.inputs.shape[1]):
        goes = continuations(batch, place, decoder)
        alike: dict[frozenset, list[Goes]] = defaultdict(list)  # those that may be asked the same
        for one in goes:
            alike[frozenset(one)].append(one)
        for first in sorted(alike.values(), key=len)[-STARTS:]:
            most = max(most, len(pairwise_distinct([*first, *goes])))
    return most


def pairwise_distinct(beginnings: list[Goes]) -> list[Goes]:
    """Return beginnings, taken greedily, any two of which a common continuation distinguishes."""
    chosen: list[Goes] = []
    for one in beginnings:
        if all(any(one[go] != other[go] for go in one.keys() & other.keys()) for other in chosen):
            chosen.append(one)
    return chosen


@pytest.mark.parametrize(
    ("exact", "kind", "load", "settings"), [(case in CASES, *case) for case in CASES + MORE]
)
def test_the_stated_bits_are_those_of_the_beginnings_to_distinguish(exact, kind, load, settings) -> None:  # type: ignore[no-untyped-def]
    made = task(kind, load, **settings)
    stated = made.least_bits(made.segments("train")[0])
    assert stated is not None
    rows, _ = distinct(made.sample("train", 0, range(ROWS)))
    most = distinguishable(rows, made.decoder)
    if exact:
        assert 2**stated == pytest.approx(most)
        assert 2**stated - 1e-6 <= enough_states(rows, made.decoder) < 2 ** (stated + 1)
    else:
        assert 1 < 2**stated <= most


def test_the_law_refuses_one_bit_too_many() -> None:
    [law] = [law for law in laws.LAWS if "least_bits" in (law.__doc__ or "")]
    made = task(MQAR, pairs(8, 2), vocab_size=8, num_passes=1, **LATER)
    assert not list(law(laws.Subject(lambda _: made)))
    vars(made)["least_bits"] = lambda segment: log2(12) + 1
    [line] = law(laws.Subject(lambda _: made))
    assert "least_bits (=4.585) must be at least 0 and at most 3.9" in line
