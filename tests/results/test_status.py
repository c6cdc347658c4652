"""zoo.status: the state of every cell from its files alone, also of cells that have not begun."""

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.analysis import fake
from tests.command import SMALL, TOYS, Run, written
from tests.results.test_claim import holding, place
from zoo import status
from zoo.config.cell import Cell
from zoo.config.compose import composer
from zoo.results import cell_status, lease, manifest
from zoo.results.cell_status import Look, Standing
from zoo.results.lease import Holder
from zoo.results.reading import Reading

COMPOSER = composer(TOYS)
HOME = ".sweeps/abcd1234.json"
ELSEWHERE = Holder("t", "node7", "node7 boot pid", 41, 5, "12_3", 0.0)


def wants(home: Path, *run_ids: str) -> None:
    content = {"schema": 1, "command": "python -m zoo.run -m x", "git_revision": None, "git_clean": None}
    cells = {run_id: f"seed={run_id}" for run_id in run_ids}
    written(home / HOME, json.dumps(content | {"since": 0.0, "cells": cells}))


def cell(home: Path, run_id: str, **files: str) -> Path:
    for name, text in files.items():
        written(home / run_id / name.replace("_", "."), text)
    return home / run_id


def done(home: Path, run_id: str, word: str = "ok") -> Path:
    return fake.put(home, fake.records(seeds=1)[0] | {"run_id": run_id, "status": word})


TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    f()\nRuntimeError: no\nmore\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A cell in every state."""
    home = tmp_path / "results"
    done(home, "a-done")
    done(home, "a-diverged", "diverged")
    cell(home, "a-failed", config_yaml="", error_txt=TRACE)
    cell(home, "b-interrupted", config_yaml="", metrics_csv="step,split\n7,train\n")
    running = cell(home, "b-running", config_yaml="", metrics_csv="step,split\n50,train\n100,train\n")
    place(running, ELSEWHERE)
    place(cell(home, "b-retried", config_yaml="", error_txt=TRACE), ELSEWHERE)
    place(cell(home, "b-stale", config_yaml=""), ELSEWHERE, silent=600)
    place(cell(home, "b-fallen", config_yaml="", error_txt=TRACE), ELSEWHERE, silent=600)
    (home / "figures").mkdir()
    wants(home, "c-wanted", "a-done")
    return home


EXPECTED = {
    "a-diverged": "diverged",
    "a-done": "done",
    "a-failed": "failed",
    "b-fallen": "failed",
    "b-interrupted": "pending",
    "b-retried": "running",
    "b-running": "running",
    "b-stale": "stale",
    "c-wanted": "pending",
}


def test_every_state_is_read_from_the_files(home: Path):
    cells = {c.run_id: c for c in Look(home)(["c-wanted", "a-done"])}
    assert {run_id: c.state for run_id, c in cells.items()} == EXPECTED
    assert cells["a-failed"].note == "RuntimeError: no"
    assert cells["b-running"].note == "process 41 of node7 (SLURM job 12_3), step 100"
    assert cells["b-stale"].note == "process 41 of node7 (SLURM job 12_3), silent for 10 min"
    assert cells["b-interrupted"].note == "interrupted, step 7"


def test_a_second_look_finds_what_has_changed(home: Path):
    look = Look(home)
    look()
    (home / "a-done" / "result.json").unlink()  # by hand, to run it again
    (home / "a-diverged" / "result.json").unlink()
    done(home, "b-stale", "diverged")
    states = {c.run_id: c.state for c in look(["a-done"])}
    assert (states["a-done"], states["b-stale"]) == ("pending", "diverged")
    assert "a-diverged" not in states


def test_a_cell_that_ends_during_a_look_is_done(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Its holder wrote the record after the files were listed."""

    def ended(folder: Path) -> None:
        (folder / lease.NAME).unlink()
        done(home, "b-running")

    monkeypatch.setattr(lease, "holder", ended)
    assert cell_status.stand(home / "b-running") == Standing("b-running", "done")


def test_folders_and_archives_below_a_folder_without_cells_are_read(home: Path, run: Run):
    (home.parent / "outer").mkdir()
    outer = home.rename(home.parent / "outer" / "demo").parent
    shutil.make_archive(str(outer / "packed"), "zip", fake.write(home.parent / "whole", seeds=1))
    out = run.done(status.main, outer)
    assert "9 cells: 1 done" in out and "51 cells: 46 done" in out
    assert f"{outer}/demo" in out and f"{outer}/packed.zip" in out
    reading = Reading(outer)
    assert [*reading] == [] and reading.nothing().endswith(f"give {outer}/demo, which hold some.")
    done(outer, "a-done")
    assert f"results of their own: {outer}/demo" in run.done(status.main, outer).replace("\n", "")


def test_the_command_prints_counts_errors_and_sweeps(home: Path, run: Run):
    out = run.done(status.main, home)
    assert out.startswith(
        "9 cells: 1 done, 1 diverged, 2 running, 1 stale, 2 failed, 2 pending, 1 of the pending begun\n"
    )
    words = ("RuntimeError: no", "a-failed/error.txt", "silent for 10 min", "step 100", "abcd1234")
    assert [word for word in (*words, "zoo.run -m x") if word not in out] == []
    assert "more rows" not in out


def test_several_folders_are_listed_in_order(home: Path, run: Run):
    shutil.copytree(home, home.parent / "other")
    out = run.done(status.main, home, home.parent / "other")
    assert out.count("9 cells: 1 done") == 2
    assert out.index(str(home)) < out.index("9 cells") < out.index(str(home.parent / "other"))
    assert run(status.main, home, home, "--watch", code=2)[1] == "--watch looks at one folder: name one.\n"


def test_long_tables_are_cut_short(tmp_path: Path, run: Run):
    for i in range(40):
        done(tmp_path, f"x-{i:02d}", "diverged")
        cell(tmp_path, f"y-{i:02d}", error_txt=TRACE)
    out, _ = run(status.main, tmp_path)
    assert "x-29" in out and "x-30" not in out and "and 10 more rows: --all shows them" in out
    assert out.count("RuntimeError: no") == 1  # forty cells, one error
    assert "x-39" in run(status.main, tmp_path, "--all")[0]


BAD = [
    ("{}/nowhere", "results folder {}/nowhere does not exist"),
    ("{}/file", "results folder {}/file is a file, and no whole archive"),
    ("{}/empty", "results folder {}/empty holds no cell: run `python -m zoo.run` first."),
]


@pytest.mark.parametrize(("place", "message"), BAD, ids=[place for place, _ in BAD])
@pytest.mark.parametrize("mode", [(), ("--watch",)], ids=["once", "watch"])
def test_an_unreadable_folder_is_one_line(
    tmp_path: Path, run: Run, place: str, message: str, mode: tuple[str, ...]
):
    (tmp_path / "empty" / "figures").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert run.line(status.main, place.format(tmp_path), *mode).startswith(message.format(tmp_path))


@pytest.mark.parametrize("mode", [(), ("--watch",)], ids=["once", "watch"])
def test_damaged_files_are_named_and_the_rest_is_counted(tmp_path: Path, run: Run, mode: tuple[str, ...]):
    """Some records are of another version, torn or copied; a sweep's file holds escapes of a terminal."""
    good = done(tmp_path, "a-good")
    cell(tmp_path, "a-half", result_json='{"schema": 1')
    cell(tmp_path, "a-later", result_json='{"schema": 9}')
    shutil.copytree(good, tmp_path / "a-copy")
    wants(tmp_path, "a-good")
    (tmp_path / HOME).write_text((tmp_path / HOME).read_text().replace("-m x", r"\u001b[2J"))
    for name, text in ("torn", "["), ("later", '{"schema": 9}'), ("list", '{"schema": 1, "cells": []}'):
        (tmp_path / ".sweeps" / f"{name}.json").write_text(text)
    out, err = run(status.main, tmp_path, *mode, code=3)
    assert "4 cells: 1 done, 3 damaged" in out and "\x1b" not in out + err
    assert len(lines := err.splitlines()) == 3 and all(line.startswith("left out: ") for line in lines)
    assert "a later one reads it" in lines[0] and "lacks 'command'" in lines[1] and "torn" in lines[2]
    if not mode:
        assert r"zoo.run \x1b[2J" in out and "is not complete JSON" in out
        assert "a-copy/result.json is the record of a-good" in out


def test_watching_without_a_terminal_prints_each_change_once(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
):
    for run_id in ("b-running", "b-retried", "b-stale", "b-interrupted"):
        (home / run_id / "error.txt").write_text("killed")
        (home / run_id / lease.NAME).unlink(missing_ok=True)
    looks = iter(range(10))

    def sleep(seconds: float) -> None:
        if next(looks) == 3:
            done(home, "c-wanted")

    monkeypatch.setattr(time, "sleep", sleep)
    lines = run(status.main, home, "--watch")[0].splitlines()
    assert [line.split("  ", 1)[1] for line in lines if "cells:" in line] == [
        "9 cells: 1 done, 1 diverged, 6 failed, 1 pending",
        "9 cells: 2 done, 1 diverged, 6 failed",
    ]
    failed = sorted(line for line in lines if line.startswith("FAILED"))
    assert len(failed) == 6 and failed[0] == "FAILED a-failed: RuntimeError: no"


def states(home: Path) -> dict[str, int]:
    return dict(status.Report(Look(home), None).counts)


def three(home: Path) -> list[Cell]:
    words = [*SMALL, "mixer=sliding_window", f"results={home}"]
    return [COMPOSER.cell([*words, f"seed={seed}"]) for seed in range(3)]


def test_a_killed_sweep_is_stale_then_pending(tmp_path: Path):
    """The process of its first cell runs, then is killed, then its claim is taken away."""
    cells = three(tmp_path)
    manifest.write(cells)
    with holding(cells[0].folder):
        assert states(tmp_path) == {"running": 1, "pending": 2}
    assert states(tmp_path) == {"stale": 1, "pending": 2}
    lease.forget(cells[0].folder)  # as whoever ends in order does, and whoever goes on with the cell
    assert states(tmp_path) == {"pending": 3}


def test_the_same_cells_are_the_same_sweep(tmp_path: Path):
    cells = three(tmp_path)
    assert manifest.write(cells) == manifest.write(reversed(cells))
    assert manifest.write(cells[:2]) != manifest.write(cells)
    sweeps = manifest.read_all(tmp_path, [])
    assert sorted(len(sweep.cells) for sweep in sweeps.values()) == [2, 3]
    assert states(tmp_path) == {"pending": 3}
    manifest.write([*cells, three(tmp_path / "b")[1]])
    assert set(manifest.read_all(tmp_path, [])) == set(sweeps)
    assert states(tmp_path / "b") == {"pending": 1}
