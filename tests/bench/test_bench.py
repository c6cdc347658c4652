"""The benchmark at sizes of no interest: what it compares, counts and writes.  No time is judged here."""

import csv
import signal
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F

from tests.kernels.agreement import outputs_of
from tests.kernels.cases import definition, op_of
from tests.training.tiny import tiny
from zoo.bench import __main__ as bench
from zoo.bench import flex, steps, subjects, train
from zoo.bench import ops as op_rows
from zoo.bench.counting import flops, seconds_of_ops
from zoo.bench.machine import Machine
from zoo.bench.steps import Form, Steps, form_of, started
from zoo.bench.timing import peak_bytes
from zoo.common import forkserver
from zoo.config.cell import Cell
from zoo.kernels.cases import Case, attention, cases, taylor_attention
from zoo.kernels.choice import ops as all_ops
from zoo.training.loss import answers_loss

MACHINE = Machine("cpu", 1, {torch.float32: 1e11, torch.bfloat16: 2e11}, 1e10)
WORDS = ["task=mqar_single", "task.seq_len=8", "task.num_kv_pairs=2", "task.vocab_size=24", "d_model=16"]


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms side by side in this process, on a machine that need not be measured."""

    @contextmanager
    def here(cell: Cell, forms: Any, kind: str, threads: int) -> Iterator[dict[str, Any]]:
        monkeypatch.setattr("zoo.bench.steps.keep_freed_memory", lambda: None)
        made = {name: Steps(cell, form_of(name), kind, threads) for name in forms}
        yield {name: (lambda m, *a, s=s: getattr(s, m)(*a)) for name, s in made.items()}

    monkeypatch.setattr(train, "processes", here)
    monkeypatch.setattr(subjects, "Machine", lambda kind, threads: MACHINE)


def written(folder: Path, what: str) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / f"{what}.csv").read_text().splitlines()))


@pytest.mark.parametrize(
    "words",
    [
        ["train", *WORDS],
        ["prefill", *WORDS, "--seq-lens", "5,9"],
        ["decode", *WORDS, "--seq-lens", "6"],
        ["ops", "--ops", "attention,taylor_attention,linear_cross_entropy"],
        ["data", "-m", "task=parity,word_problem", "max_examples=20"],
        ["population", *WORDS, "optim.batch_size=4"],
    ],
    ids=lambda words: words[0],
)
def test_every_ratio_is_against_a_row_of_the_same_run(words: list[str], tmp_path: Path):
    assert bench.main([*words, "--rounds", "2", "--out", str(tmp_path)]) == 0
    rows = written(tmp_path, words[0])
    seconds = {(r["mixer"], r["sizes"], r["implementation"]): float(r["seconds"]) for r in rows}
    assert len(seconds) == len(rows) > 1, "a row is not one measurement"
    for row in rows:
        against = seconds[row["mixer"], row["sizes"], row["alternative"]]
        assert float(row["ratio"]) == pytest.approx(against / float(row["seconds"]))
        assert float(row["fastest"]) <= float(row["seconds"]) <= float(row["slowest"])
        assert row["repeats"] == "2" and row["clock"] == "cpu"
        if row["floor_share"]:
            share = float(row["floor_seconds"]) / float(row["seconds"])
            assert float(row["floor_share"]) == pytest.approx(share) and row["floor"]
    assert f"python -m zoo.bench {words[0]}" in (tmp_path / f"{words[0]}.md").read_text()


def test_an_epoch_is_its_segments_steps():
    rows = train.train(tiny(), MACHINE, ("zoo", "plain"), "plain", rounds=3)
    by_size: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        by_size[row.sizes][row.implementation] = row.units_per_second
    *segments, epoch = by_size
    assert len(segments) == 2 and "epoch of 7 batches of 4, from 3 of each segment" in epoch
    one, two = (by_size[name]["zoo"] for name in segments)
    assert min(one, two) * 0.5 < by_size[epoch]["zoo"] < max(one, two) * 2
    made = {row.sizes: row.floor_seconds for row in rows if row.implementation == "zoo"}
    assert made[epoch] == pytest.approx(4 * made[segments[0]] + 3 * made[segments[1]])  # pyright: ignore


def test_a_form_is_a_base_and_words():
    assert form_of("zoo bf16-mixed graph triton") == Form(
        precision="bf16-mixed", step="graph", kernels="triton"
    )
    assert form_of("all logits compile") == Form(answers_only=False, step="compile")
    assert form_of("plain").kernels == "reference"


def test_a_form_that_fails_costs_no_other_its_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    step = Steps._step
    monkeypatch.setattr(Steps, "_step", lambda s, *a: step(s, *a) if s.form.step == "eager" else 1 / 0)
    rows = train.train(tiny(), MACHINE, ("zoo compile", "zoo"), "zoo", rounds=1)
    assert {row.implementation for row in rows} == {"zoo"} and all(row.peak_bytes for row in rows)
    assert "not timed: zoo compile: ZeroDivisionError" in capsys.readouterr().err


def test_a_cell_that_fails_costs_no_other_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["decode", "-m", *WORDS, "mixer=nystromformer,attention", "--seq-lens", "4", "--rounds", "1"]
    assert bench.main([*words, "--out", str(tmp_path)]) == 0
    assert {row["mixer"] for row in written(tmp_path, "decode")} == {"attention"}
    error = capsys.readouterr().err
    assert "not timed: " in error and "mixer=nystromformer has no exact decoding" in error


def test_a_recorded_step_has_its_warm_up_at_every_length():
    asked: list[tuple[Any, ...]] = []
    ask = lambda *words: asked.append(words) or (1.0, 2.0)  # noqa: E731
    train.measure({"zoo graph": ask, "zoo": ask}, segments=2, rounds=1, alternative="zoo")
    assert asked[:4] == [("timed", 0, 0), ("timed", 1, 0)] * 2


def test_a_mixers_time_stands_beside_attentions(tmp_path: Path):
    words = ["train", "-m", *WORDS, "mixer=attention,based", "--rounds", "1", "--forms", "zoo"]
    assert bench.main([*words, "--out", str(tmp_path)]) == 0
    rows = {row["mixer"]: row for row in written(tmp_path, "train")}
    ratio = float(rows["based"]["seconds"]) / float(rows["attention"]["seconds"])
    assert float(rows["based"]["of_attention"]) == pytest.approx(ratio)
    assert float(rows["attention"]["of_attention"]) == 1


@pytest.mark.parametrize("form", ["plain", "all logits"])
def test_the_plain_formulation_learns_the_same(form: str):
    rows = train.train(tiny(), MACHINE, ("zoo", form), form, rounds=3)
    gaps = {row.implementation: row.loss_gap for row in rows}
    assert gaps[form] is None
    assert gaps["zoo"] is not None and gaps["zoo"] < 1e-5


def test_forms_that_learn_something_else_are_no_race(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo.bench.steps.all_logits_loss", lambda *given: 1.02 * answers_loss(*given))
    with pytest.raises(ValueError, match="the losses of zoo and plain are 2"):
        train.train(tiny(), MACHINE, ("zoo", "plain"), "plain", rounds=1)


def test_products_are_counted():
    a, b = torch.randn(3, 5, requires_grad=True), torch.randn(5, 7)
    assert flops(lambda: a @ b) == 2 * 3 * 5 * 7
    assert flops(lambda: torch.zeros(3, 7).addmm_(a.detach(), b)) == 2 * 3 * 5 * 7
    q = torch.randn(2, 1, 6, 4, requires_grad=True)
    whole = 4 * 2 * 6 * 6 * 4
    assert flops(lambda: F.scaled_dot_product_attention(q, q, q)) == whole
    assert flops(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)) == whole / 2
    y = F.scaled_dot_product_attention(q, q, q, is_causal=True).sum()
    assert flops(lambda: y.backward()) == 2.5 * whole / 2


def test_every_operation_is_there_those_of_the_backward_too():
    x = torch.ones(8, 8, requires_grad=True)
    seconds = seconds_of_ops(lambda: (x @ x).sigmoid().sum().backward(), "cpu", 1)
    assert {"mm", "sigmoid", "sum", "sigmoid_backward"} <= set(seconds)
    assert all(value >= 0 for value in seconds.values())


def test_memory_is_the_most_that_is_held_at_once() -> None:
    def run() -> None:
        first = torch.empty(1000)  # 4,000 bytes
        del first
        kept = [torch.empty(500), torch.empty(1000)]  # 6,000 at once
        del kept

    assert peak_bytes(run, MACHINE) == 6000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--forms", "zoo,plane"], "--forms (='plane') must be one of"),
        (["ops", "--ops", "atention"], "--ops (='atention') must be one of"),
        (["decode", "--seq-lens", "9" * 30], "must be positive integers"),
        (["prefill", "--seq-lens", "64,99999999999"], "--seq-lens (=99999999999) must be at most"),
        (["data", "--rounds", "0"], "--rounds (=0) must be"),
        (["data", "--out", __file__], "is a file; give a folder for the tables."),
        (["train", "-m", "trainer.threads=1,2"], "one trainer and trainer.threads"),
        (["data", "task.vocb_size=3"], "task.vocb_size"),
        (["train", "--device", "cuda"], "trainer.accelerator (=gpu) needs a CUDA device"),
        (["decode", "mixer=nystromformer", "--seq-lens", "4"], "has no exact decoding"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_measured(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(Machine, "now", lambda machine: pytest.fail("timed before it was refused"))
    monkeypatch.setattr(train, "processes", lambda *_: pytest.fail("started before it was refused"))
    assert bench.main(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_process_for_steps_leaves_ctrl_c_to_the_bench():
    with ProcessPoolExecutor(1, forkserver.start([steps.__name__])) as pool:
        started([pool])
        assert signal.SIGINT in pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


HERE = [case for case in cases(small=True) if case.op in [op.name for op in all_ops()]]
each_case = pytest.mark.parametrize("case", HERE, ids=lambda s: f"{s.name} {s.words}")


@each_case
def test_every_implementation_answers_as_the_definition_does(case: Case):
    """What stands in for it, a window for chosen blocks, has the shape of the answer."""
    inputs = case.draw("cpu")
    expected, *_ = outputs_of(definition(case.op), inputs)
    found = op_rows.implementations(case, inputs)
    assert list(found)[-1] in op_of(case.op).forms
    for name, function in found.items():
        y, *_ = outputs_of(function, inputs)
        if name.startswith(("a window", "everything")):
            assert y.shape == expected.shape
        else:
            torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3)


@each_case
def test_what_goes_in_and_out_is_what_is_counted(case: Case):
    outputs = outputs_of(definition(case.op), case.draw("cpu"))
    held = sum(x.numel() for x in outputs)
    assert case.outputs in (outputs[0].numel(), held - case.states)
    assert case.outputs + case.states in (held, outputs[0].numel()), "states that are not kept"


@each_case
def test_no_form_in_torch_makes_fewer_products_than_the_floor(case: Case):
    inputs = case.draw("cpu")
    for function in op_rows.implementations(case, inputs).values():
        made = flops(lambda f=function: f(*inputs))
        assert made == 0 or made >= case.flops, "a floor above what is needed"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("length", "keys", "window"), [(40, 40, None), (40, 40, 7), (5, 40, 9)])
def test_flex_attention_sees_what_attention_sees(
    monkeypatch: pytest.MonkeyPatch, length: int, keys: int, window: int | None
):
    monkeypatch.setattr(flex, "_compiled", lambda function: function)
    q = torch.randn(2, 4, length, 16)
    k, v = torch.randn(2, 2, 2, keys, 16)
    torch.testing.assert_close(flex.flex(q, k, v, window), definition("attention")(q, k, v, window))


def test_an_ops_backward_pass_is_twice_the_forward():
    case, slow = attention(1, 2, 64, 8), Machine("cpu", 1, {torch.float32: 1e3}, 1e12)
    one, both = (op_rows.bound(case, case.draw("cpu"), b, slow) for b in (False, True))
    assert one.seconds is not None and both.seconds == pytest.approx(3 * one.seconds)


def test_a_kernel_that_fails_costs_no_other_its_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    case = taylor_attention(1, 1, 16, 4, 8)
    fails = Mock(side_effect=RuntimeError("no such instruction"))
    monkeypatch.setitem(op_of(case.op).forms, "reference", fails)
    rows = [row for some in op_rows.op_rows(case, MACHINE, rounds=1) for row in some]
    assert {row.implementation for row in rows} >= {"fused"} and all(row.ratio > 0 for row in rows)
    assert not any(row.implementation == "reference" for row in rows)
    assert "not timed: taylor attention, reference: RuntimeError: no such" in capsys.readouterr().err


def test_a_run_that_is_stopped_keeps_what_it_had_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def stopped(case: Case, *rest: Any) -> Iterator[Any]:
        yield from measured(case, *rest)
        raise KeyboardInterrupt

    measured = subjects.op_rows
    monkeypatch.setattr(subjects, "op_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        bench.main(["ops", "--ops", "diagonal_scan", "--rounds", "1", "--out", str(tmp_path)])
    assert written(tmp_path, "ops"), "the rows of the first op"
