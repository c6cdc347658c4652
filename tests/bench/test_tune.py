"""benchmarks.gpu.tune without a card: what is tried, left out, ranked and written."""

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import Future, ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from benchmarks.gpu import tune
from benchmarks.gpu.ahead import FITS, NO_TIME, Clock, Job
from benchmarks.gpu.choices import Knob, alternatives, noted, words
from benchmarks.gpu.commands import Place, read_csv
from benchmarks.gpu.on_card import Graph, Lost, poisoned
from benchmarks.gpu.ranking import Timed, disagreement, fastest, in_rounds
from benchmarks.gpu.tune_tables import Found, Tables
from benchmarks.gpu.tuned import BY_CHANNEL, CONSTANTS, TABLES, tuned
from tests.command import ROOT

COMPILING = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")


class Blocks(NamedTuple):
    own: int
    other: int
    num_warps: int
    num_stages: int


STATIC = Blocks(64, 32, 4, 2)


def blocks(kernel: str, bits: int) -> Blocks:
    return STATIC._replace(other=bits)


CHUNK = 64
HERE = f"{__name__}:"


# what is tried ---------------------------------------------------------------------------------------------


def test_the_nearest_choices_come_first_and_each_once():
    found = alternatives(STATIC, 1000)
    apart = [sum(a != b for a, b in zip(cut, STATIC, strict=True)) for cut in found]
    assert apart == sorted(apart) and apart[0] == 1 and STATIC not in found and len(set(found)) == len(found)
    assert {cut.own for cut in found} == {32, 64, 128} and {cut.other for cut in found} == {16, 32, 64}
    assert {cut.num_warps for cut in found} == {2, 4, 8} and {cut.num_stages for cut in found} == {1, 2, 3, 4}
    assert alternatives(STATIC, 5) == found[:5]


def test_what_is_cut_into_ones_or_not_at_all_stays_and_products_keep_their_sixteen():
    found = alternatives(Blocks(16, 1, 1, 1), 1000)
    assert {cut.own for cut in found} == {16, 32} and {cut.other for cut in found} == {1}
    assert {cut.other for cut in alternatives(Blocks(256, 0, 8, 1), 1000)} == {0}
    assert {cut.own for cut in alternatives(Blocks(8, 1, 1, 1), 1000)} == {4, 8, 16}


def test_another_choice_holds_inside_for_its_kernel_alone():
    with pytest.raises(ZeroDivisionError), Knob(f"{HERE}blocks", "keys").at(Blocks(16, 16, 8, 1)):
        assert blocks("keys", 16).own == 16 and blocks("queries", 16) == STATIC._replace(other=16)
        raise ZeroDivisionError
    assert blocks("keys", 16).own == 64
    with Knob(f"{HERE}blocks").at(STATIC):
        assert blocks("keys", 16) == blocks("queries", 32) == STATIC
    with Knob(f"{HERE}CHUNK").at(128):
        assert CHUNK == 128
    assert CHUNK == 64 == Knob(f"{HERE}CHUNK").value()


def test_what_a_call_looks_up_is_noted_once():
    with noted(f"{HERE}blocks") as found:
        blocks("keys", 16)
        blocks("queries", 32)
        blocks("keys", 32)
    assert [knob.word for knob in found] == ["keys", "queries"]
    assert found[Knob(f"{HERE}blocks", "keys")].other == 16 and blocks("keys", 16).other == 16


@needs_triton
def test_all_that_is_tuned_has_a_table_and_constants_that_are_there():
    assert {one.op for one in tuned(False)} == set(TABLES)
    assert {one.table for one in tuned(False)} == {*TABLES.values(), BY_CHANNEL} >= set(CONSTANTS)
    for one in tuned(False):
        assert callable(Knob(one.table).value()) and one.subject.op == one.ragged.op
        assert one.subject.words != one.ragged.words
        assert all(knob.value() not in values for knob, values in one.constants.items())


ASKED = """
import json
import torch
from triton.runtime.jit import JITFunction
from benchmarks.gpu.compiling import asked
from benchmarks.gpu.tuned import tuned

JITFunction.run = lambda *args, **options: None  # nothing is compiled
for number, one in enumerate(tuned(False)):
    found = [knob for knob, _ in asked(number, False, torch.bfloat16, 90)]
    entries = [knob.word for knob in found if knob not in one.constants]
    print(json.dumps([one.subject.name, one.way, entries]))
"""


@needs_triton
def test_every_call_looks_up_the_table_that_is_tuned_for_it():
    """In the channels' case, a decay for each, the op has a table of its own."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED], cwd=ROOT, env=COMPILING, capture_output=True, text=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(tuned(False)) and all(entries for *_, entries in rows), done.stderr
    own = [entries for name, _, entries in rows if name == "linear attention, a decay a channel"]
    assert own == [["sums", "walk", "weights", "outputs"], ["pairs", "gradients"]]


# what is left out ------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.timeout(300)
def test_what_spills_or_does_not_compile_is_said_so_by_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from benchmarks.gpu.compiling import Order, asked, unfit
    from zoo.kernels.taylor_scan.triton_launches import Blocks as Cut

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        ((knob, static),) = pool.submit(asked, 0, True, torch.bfloat16, 90).result()
        assert (knob.word, static) == ("step", Cut(64, 1, 32, 4, 1))
        fits, spills, breaks = (
            pool.submit(unfit, Order(0, True, torch.bfloat16, 90, knob, value)).result()
            for value in (Cut(32, 1, 32, 4, 1), Cut(128, 1, 64, 1, 1), Cut(48, 1, 32, 4, 1))
        )
    assert fits is None and "spills" in str(spills) and "does not compile" in str(breaks)


WRONG = """
import torch
from benchmarks.gpu.calls import call_of
from benchmarks.gpu.choices import Knob
from benchmarks.gpu.ranking import disagreement
from benchmarks.gpu.tuned import TABLES
from zoo.bench.op_subjects import taylor_attention
from zoo.kernels.taylor_attention.triton import Blocks

call = call_of(taylor_attention(1, 1, 144, 16, 16), True, "cpu", torch.float32)
true = call()
for cut in (Blocks(32, 16, 4, 1), Blocks(64, 128, 4, 1)):
    with Knob(TABLES["taylor_attention"], "forward").at(cut):
        print(disagreement(call(), true))
"""


@needs_triton
def test_a_choice_that_gives_something_else_is_found_out(tmp_path: Path):
    """Blocks that pass by and do not divide those that stay: keys count twice."""
    settings = {"TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WRONG],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    fine, wrong = done.stdout.splitlines() or [done.stderr, ""]
    assert fine == "None" and wrong.startswith("disagrees: result 0")


def test_one_wrong_row_disagrees_and_rounding_does_not():
    rng = torch.Generator().manual_seed(0)
    true = torch.randn(2, 5000, 64, generator=rng)
    assert disagreement([true.bfloat16()], [true.bfloat16()]) is None
    assert disagreement([(true * (1 + 2**-9)).bfloat16()], [true.bfloat16()]) is None
    row, nan = true.clone(), true.clone()
    row[1, 4321] *= 1.5
    nan[0, 0, 0] = torch.nan
    assert "result 1" in str(disagreement([true, row], [true, true]))
    assert "result 0" in str(disagreement([nan, true], [true, true]))
    assert disagreement([torch.tensor(2.0)], [torch.tensor(2.1)]) is not None
    assert disagreement([torch.zeros(3)], [torch.zeros(3)]) is None


def test_few_may_choose_otherwise_between_two_that_are_as_good():
    true = torch.arange(10_000)
    few, more = (true.clone().index_fill_(0, torch.arange(count), -1) for count in (2, 3))
    assert disagreement([few], [true]) is None
    assert disagreement([more], [true]) == "disagrees: result 0 in 0.0003 of its numbers"


def test_memory_that_nobody_has_written_is_no_number():
    with poisoned():
        assert torch.empty(3).isnan().all() and torch.zeros(2).new_empty(3).isnan().all()
    assert not torch.are_deterministic_algorithms_enabled()


# what is ranked --------------------------------------------------------------------------------------------


def test_a_card_that_slows_down_changes_no_ratio():
    slower = iter(1 + 0.01 * n for n in range(10_000))

    def seconds(run: float) -> float:
        return run * next(slower)

    static, found = in_rounds(1.0, {"slow": 2.0, "fast": 0.5}, seconds, 15)
    assert found["fast"].ratio == pytest.approx(0.5, rel=0.02)
    assert found["slow"].ratio == pytest.approx(2, rel=0.02)
    assert static > 1.1


def test_the_fastest_comes_first_with_a_number_that_did_not_choose_it():
    """One choice is lucky in the quick look; what is said of it comes from the second."""
    calls: dict[float, int] = {}

    def seconds(run: float) -> float:
        calls[run] = calls.get(run, 0) + 1
        return 0.1 if run == 0.99 and calls[run] <= 3 else run

    others = {name: run for name, run in enumerate((1.3, 0.8, 1.1, 0.99, 1.2, 0.9))}
    static, found = fastest(1.0, others, seconds)
    assert static == 1 and list(found) == [1, 5, 3, 2] and found[3].ratio == 0.99
    assert calls[1.3] == 3, "the slowest are not timed again"
    assert fastest(1.0, {}, seconds) == (1.0, {})


# what is written -------------------------------------------------------------------------------------------


def job(*verdicts: str | None) -> Job:
    """Its choices have own = 16, 32, ..."""
    done = []
    for number, said in enumerate(verdicts):
        future: Future[str | None] = Future()
        future.set_result(said)
        done.append((STATIC._replace(own=16 << number), future))
    return Job(tuned(True)[0], torch.bfloat16, Knob(f"{HERE}blocks", "keys"), STATIC, done)


class FakeCard:
    """Wrong where own is 32, the end of the card where it is 64; seconds are own / 100."""

    static = Graph(None, 64)  # pyright: ignore[reportArgumentType]

    def tried(self, value: Any) -> Graph | str:
        if value.own == 64:
            raise Lost("an illegal memory access")
        return "disagrees: result 0 by 1" if value.own == 32 else Graph(None, value.own)  # pyright: ignore


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "on", lambda job: FakeCard())
    monkeypatch.setattr(Graph, "seconds", lambda graph: graph.calls / 100)


def test_a_row_says_what_was_best_and_what_was_left_out(tmp_path: Path, fake: None):
    tables, one = Tables(Place("cpu", True, tmp_path)), job(None, None, None, None, "spills 8 bytes a thread")
    with pytest.raises(Lost):
        tune.outcome(one, tables, Clock.of(100), on_card=True)
    assert not tables.has(one.key)
    again = Tables(Place("cpu", True, tmp_path))
    said = again.add(one.key, tune.outcome(one, again, Clock.of(100), on_card=True))
    assert "own 16 other 32 warps 4 stages 2 takes 0.250 of its time" in said
    (row,) = read_csv(tmp_path / "tune.csv")
    assert (row["kernel"], row["static"], row["change"], row["tried"]) == ("keys", words(STATIC), "yes", "5")
    assert (row["ratio"], row["static_us"], row["best_us"]) == ("0.250", "640000.00", "160000.00")
    assert row["left_out"] == "1 disagrees; 1 stopped the; 1 spills 8"
    fates = [row["fate"] for row in read_csv(tmp_path / "candidates.csv")]
    assert fates == [FITS, "disagrees: result 0 by 1", "stopped the card", FITS, "spills 8 bytes a thread"]
    assert "| keys |" in (tmp_path / "tune.md").read_text()
    assert Tables(Place("cpu", True, tmp_path)).has(one.key), "a run after this one goes on"


def test_less_than_the_noise_is_no_reason_to_change():
    row = Found([STATIC, STATIC], {0: FITS, 1: FITS}, 1.0, {0: Timed(0.98, 0.98), 1: Timed(1.0, 1.0)}).row()
    assert (row["ratio"], row["change"]) == ("0.980", "no")


def test_what_had_no_time_is_not_done(tmp_path: Path, fake: None):
    tables, one = Tables(Place("cpu", True, tmp_path)), job(None, None)
    found = tune.outcome(one, tables, Clock.of(tune.LEAST_S - 1), on_card=True)
    assert set(found.fates.values()) == {NO_TIME}
    assert "no time" in tables.add(one.key, found) and not tables.has(one.key)
    waiting = Job(one.one, one.dtype, one.knob, one.static, [(STATIC, Future())])
    assert tune.outcome(waiting, tables, Clock.of(0.1), on_card=False).fates == {0: NO_TIME}


def test_without_a_card_nothing_is_called_best(tmp_path: Path):
    row = tune.outcome(job(None, None), Tables(Place("cpu", True, tmp_path)), Clock.of(100), False).row()
    assert (row["best"], row["ratio"], row["change"], row["left_out"]) == ("", "", "", "")
