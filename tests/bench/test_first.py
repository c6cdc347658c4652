"""zoo.bench first on a machine without a GPU: each command at tiny sizes, time limits, and what is packed."""

import json
import sys
import time
import zipfile
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from tests.command import ROOT, as_module
from zoo.bench import __main__ as bench
from zoo.bench import first, limited, subjects
from zoo.bench.first import PARTS, Place
from zoo.bench.limited import Command, read_csv, run
from zoo.bench.steps import form_of
from zoo.config.cell import Cell
from zoo.kernels.choice import ops

QUICK = [sys.executable, "-c", ""]


def complete(out: Path, parts: set[str]) -> None:
    """Check what these parts leave when every command of theirs has ended well."""
    rows = {(row["part"], row["name"]): row["note"] for row in read_csv(out / "commands.csv")}
    assert {part for part, _ in rows} == parts and not any(rows.values())
    with zipfile.ZipFile(out / "tables.zip") as packed:
        names = set(packed.namelist())
    assert {"commands.csv", "point/point.zip"} <= names
    assert not any(name.endswith(("result.json", "metrics.csv", "last.ckpt")) for name in names)


def test_steps_and_point_run_at_tiny_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In this process, one command after the other; each as a process of its own: the slow test."""

    def run_one(command: Command, log: Path, limit: float) -> tuple[int, str]:
        code = as_module(monkeypatch, *command.words[len(first.PYTHON) :])
        return code, f"exit code {code}" if code else ""

    monkeypatch.setattr(limited, "_run_one", run_one)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(first, "PARTS", {name: PARTS[name] for name in ("steps", "point")})
    assert bench.main(["first", "--rehearse", "--out", str(tmp_path / "out")]) == 0
    complete(tmp_path / "out", {"steps", "point"})
    assert (tmp_path / "out" / "steps" / "population.md").is_file()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_part_runs_at_tiny_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    assert bench.main(["first", "--rehearse", "--out", str(tmp_path)]) == 0
    complete(tmp_path, set(PARTS))
    assert (tmp_path / "tests" / "errors.csv").is_file() and list(tmp_path.glob("ops/*/ops.csv"))


def test_a_mistake_is_one_line_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    out = ["--out", str(tmp_path / "out")]
    for words, said in (
        (out, "no CUDA device; --rehearse runs the same on a CPU."),
        ([*out, "--rehearse"], "run it in a checkout's folder."),
        ([], "--out DIR for its tables."),
        ([*out, "mixer=based"], "takes no key=value words"),
        (["--out", __file__], "is a file"),
    ):
        assert bench.main(["first", *words]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_half_hour_has_its_order_and_its_minutes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A part that fails or takes too long costs the next nothing; time left over is the last one's."""
    clock, left, packed = [0.0], dict[str, float](), list[int]()

    def run_part(name: str, commands: object, out: Path, deadline: float) -> int:
        left[name] = (deadline - clock[0]) / 60
        clock[0] += 60 * (9 if name == "tests" else 1)  # the first takes a minute too long
        return 1

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(first, "run", run_part)
    monkeypatch.setattr(first, "pack", lambda out: packed.append(len(left)))
    monkeypatch.setattr(first.time, "monotonic", lambda: clock[0])
    assert first.first(Place("cpu", True, tmp_path)) == 1 and packed == [1, 2, 3, 4, 5]
    assert left == {"tests": 8, "ops": 5, "steps": 3, "point": 8, "rest": 18}
    assert sum(minutes for _, minutes in PARTS.values()) == 30


def test_every_bench_on_a_gpu_has_words_that_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They are composed as they will be; nothing is measured."""
    seen: list[str] = []

    def measure(what: str, cells: list[Cell], own: Namespace) -> None:
        seen.append(what)
        assert cells[0].trainer.device == "cuda" and own.out.is_relative_to(tmp_path)
        assert all(map(form_of, (own.forms or "zoo").split(",")))
        assert own.ops is None or own.ops in [op.name for op in ops()]
        raise ValueError("measured")

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(subjects, "measure", measure)
    for commands, _ in PARTS.values():
        for command in commands(Place("cuda", False, tmp_path)):
            if "zoo.bench" in command.words:
                assert bench.main(command.words[command.words.index("zoo.bench") + 1 :]) == 2
    assert seen == ["ops"] * len(first.OPS) + ["train", "population"]


def test_a_command_that_fails_costs_the_next_nothing(tmp_path: Path):
    both = [Command("fails", [sys.executable, "-m", "no_such_module"]), Command("runs", QUICK)]
    assert run("some", both, tmp_path, time.monotonic() + 60) == 1
    notes = {row["name"]: (row["code"], row["note"]) for row in read_csv(tmp_path / "commands.csv")}
    assert notes == {"fails": ("1", "exit code 1"), "runs": ("0", "")}
    assert "no_such_module" in (tmp_path / "some" / "fails.log").read_text()


@pytest.mark.parametrize(("may_stop", "failures"), [(True, 0), (False, 1)])
def test_what_takes_too_long_is_stopped_as_ctrl_c_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, may_stop: bool, failures: int
):
    monkeypatch.setattr(limited, "LEAST_S", 0.1)
    lines = "print('begun', flush=True)", "try: time.sleep(60)", "except KeyboardInterrupt: print('asked')"
    slow = Command("slow", [sys.executable, "-c", "\n".join(["import time", *lines])], may_stop=may_stop)
    assert run("some", [slow], tmp_path, time.monotonic() + 2) == failures
    (row,) = read_csv(tmp_path / "commands.csv")
    assert row["note"] == limited.STOPPED and float(row["seconds"]) < 30
    assert (tmp_path / "some" / "slow.log").read_text().split()[:2] == ["begun", "asked"]


def test_nothing_is_started_without_time_and_a_second_run_replaces_the_note(tmp_path: Path):
    one = [Command("one", QUICK)]
    assert run("some", one, tmp_path, time.monotonic() + 1) == 1
    (row,) = read_csv(tmp_path / "commands.csv")
    assert row["note"] == "not started: no time was left"
    assert run("some", one, tmp_path, time.monotonic() + 60) == 0
    (row,) = read_csv(tmp_path / "commands.csv")
    assert (row["note"], row["code"]) == ("", "0")


def test_every_test_has_its_end_and_its_errors_beside_their_bounds(tmp_path: Path):
    held = json.dumps([("output 0", 1.23456e-7, 4e-6), ("gradient 1", 2e-3, 1e-3)]).replace('"', "&quot;")
    children = f'<properties><property name="distances" value="{held}"/></properties>', "<failure/>"
    children += "<error/>", "<skipped/>", ""
    cases = [
        f'<testcase classname="tests.test_a_gpu" name="test_x[{i}]">{child}</testcase>'
        for i, child in enumerate(children)
    ]
    report = f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"
    (tmp_path / "ops.xml").write_text(report)
    first.write_errors(tmp_path)
    rows = read_csv(tmp_path / "errors.csv")
    assert [row["end"] for row in rows] == ["passed", "passed", "failed", "failed", "skipped", "passed"]
    assert [tuple(row[key] for key in ("of", "error", "bound")) for row in rows[:3]] == [
        ("output 0", "1.23e-07", "4e-06"),
        ("gradient 1", "0.002", "0.001"),
        ("", "", ""),
    ]
    assert rows[0]["test"] == "tests.test_a_gpu::test_x[0]"
