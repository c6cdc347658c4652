"""Sweeps in worker processes: a failure stops no other cell, nothing is done twice, a kill loses nothing."""

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.command import DONE, SMALL, TOYS, Zoo, finish, start, until
from tests.toys.faulty import HEALED
from zoo.config.cell import Cell
from zoo.config.compose import composer
from zoo.launch import process_pool
from zoo.launch.process_pool import Pool
from zoo.results import lease, manifest, store, table

COMPOSER = composer(TOYS)
WINDOW = "mixer=sliding_window"
SLOW = (
    "mixer=faulty",
    "mixer.seconds=0.02",
    "trainer.checkpoint_every=2",
    "max_examples=64",
    "optim.eval_batch_size=64",
    "task.order=shuffled",
)


def folders(place: Path) -> list[Path]:
    return sorted(path for path in (place / "results").iterdir() if path.is_dir() and path.name[0] != ".")


def records(place: Path) -> dict[Path, int]:
    """Map each record to its time of writing."""
    return {path: path.stat().st_mtime_ns for path in place.glob("results/*/result.json")}


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_cells_that_die_stop_no_other(zoo: Zoo, tmp_path: Path):
    faulty = ("mixer=faulty,faulty", "mixer.seconds=0.001")  # a setting that the default mixer lacks
    sweep = ("-m", *SMALL, *faulty, "mixer.way=none,raise,exit,kill,diverge")
    code, out, err = zoo(*sweep)
    assert code == 1, err
    frame = table.load(tmp_path / "results")
    assert set(frame["mixer.seconds"]) == {0.001}
    assert dict(zip(frame["mixer.way"], frame.status, strict=True)) == {"none": "ok", "diverge": "diverged"}
    errors = {path: (path / "error.txt").read_text() for path in folders(tmp_path) if not store.is_done(path)}
    raised, left, killed = (
        next(text for text in errors.values() if word in text)
        for word in ("RuntimeError: this mixer\nalways fails", "SystemExit", "SIGKILL")
    )
    assert raised.startswith("Traceback") and left.startswith("Traceback")
    assert killed.startswith("the process was killed by SIGKILL")
    for word in ("failed; the same command tries them again", "1 diverged", "error.txt"):
        assert word in out
    before = records(tmp_path)
    code, out, _ = zoo(*sweep)  # tries the three again, and only them
    assert code == 1 and "5 cells: 2 done already, 3 to run" in out
    assert records(tmp_path) == before and len(before) == 2


def test_a_sweep_runs_each_distinct_cell_once_and_leaves_no_litter(zoo: Zoo, tmp_path: Path):
    grid = ("-m", *SMALL, "mixer=attention,sliding_window", "d_model=16,8", "lr=1e-3,0.001")
    assert "4 cells: 0 done already, 4 to run" in zoo.done(*grid)
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert len(folders(tmp_path)) == 4
    assert all(files(folder) == DONE for folder in folders(tmp_path))
    (sweep,) = manifest.read_all(tmp_path / "results", []).values()
    assert {*sweep.cells} == {folder.name for folder in folders(tmp_path)}
    assert len(sweep.git_revision or "") == 40
    assert sweep.command.startswith("python -m zoo.run ") and "d_model=16,8" in sweep.command
    assert "4 cells: 4 done already, 0 to run" in zoo.done(*grid)


def test_a_single_cell_is_described_and_done_once(zoo: Zoo, tmp_path: Path):
    out = zoo.done(*SMALL, WINDOW)
    for word in ("layers", "BaseConv", "SlidingWindow", "scalars resident", "parameters", "coverage"):
        assert word in out
    assert "trained and tested in" in out
    (folder,) = folders(tmp_path)
    assert files(folder) == DONE
    assert str(folder.relative_to(tmp_path)) in out
    before = records(tmp_path)
    assert "not done again" in zoo.done(*SMALL, WINDOW)
    assert records(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_traceback_stays_until_the_cell_succeeds(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as planted:
        planted.setattr("zoo.launch.describe.coverage", None)  # as where the rows of a task have no groups
        assert zoo(*SMALL, "mixer=faulty", "mixer.way=raise")[2].startswith("failed: TypeError: ")
    code, _, err = zoo(*SMALL, "mixer=faulty", "mixer.way=raise")
    (folder,) = folders(tmp_path)
    assert code == 1
    assert err.splitlines()[0] == "failed: RuntimeError: this mixer"
    assert str(folder.relative_to(tmp_path) / "error.txt") in err
    assert "always fails" in (folder / "error.txt").read_text()
    monkeypatch.setenv(HEALED, "1")
    zoo.done(*SMALL, "mixer=faulty", "mixer.way=raise")
    assert files(folder) == DONE


def test_a_cell_is_not_run_by_two_processes_at_once(zoo: Zoo, tmp_path: Path):
    folder = COMPOSER.cell([*SMALL, WINDOW]).folder
    folder.mkdir(parents=True)
    with lease.held(folder):
        code, _, err = zoo(*SMALL, WINDOW)
    assert (code, len(err.splitlines())) == (2, 1)
    assert f"is being worked on by process {os.getpid()} of " in err
    assert files(folder) == set()


def test_two_drivers_of_one_sweep_share_it(zoo: Zoo, tmp_path: Path):
    sweep = ("-m", *SMALL, *SLOW, "mixer.seconds=0.05", "seed=0,1,2", "hydra.launcher.n_workers=1")
    other, ended, holders = start(*sweep, cwd=tmp_path), threading.Event(), dict[str, set[int]]()

    def watch() -> None:
        while not ended.wait(0.05):
            for path in tmp_path.glob("results/*/claim.json"):
                if holder := lease.holder(path.parent):
                    holders.setdefault(path.parent.name, set()).add(holder.pid)

    with ThreadPoolExecutor(1) as pool:
        watched = pool.submit(watch)
        wait_for("claim.json", other, tmp_path)
        ends = [zoo(*sweep), finish(other)]
        ended.set()
        watched.result()
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert {name: len(pids) for name, pids in holders.items()} == {f.name: 1 for f in folders(tmp_path)}
    assert all(files(folder) == DONE for folder in folders(tmp_path))
    assert all(out.count(": ok  test") == 3 for _, out, _ in ends)


def test_a_cell_of_a_killed_driver_is_taken_over(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sweep = ("-m", *SMALL, *SLOW, "mixer.seconds=0.2", "hydra.launcher.n_workers=1")
    first = start(*sweep, cwd=tmp_path)
    wait_for("claim.json", first, tmp_path)
    set_aside, holders = Pool._set_aside, []

    def then_kill(pool: Pool, cell: Cell) -> None:
        set_aside(pool, cell)
        holders.append(lease.holder(cell.folder))
        first.kill()
        first.communicate()

    monkeypatch.setattr(Pool, "_set_aside", then_kill)
    assert zoo.done(*sweep).count(": ok  test") == 1
    assert len(holders) == 1 and holders[0], "the second did not wait for the first"


def test_help_and_cfg_show_the_settings(zoo: Zoo):
    text = zoo.done("--help")
    for word in ("python -m zoo.run -m", "all_poly, attention", "based_fig2", "demo", "d_model: 64"):
        assert word in text, word
    assert "window: 8" in zoo.done("--cfg", "job", WINDOW)


def wait_for(marker: str, process: subprocess.Popen[str], place: Path) -> None:
    """Wait until some cell writes the file `marker`."""
    now, paths = time.time_ns(), f"results/*/{marker}"
    until(lambda: any(path.stat().st_mtime_ns > now for path in place.glob(paths)), process, 120)


@pytest.mark.parametrize(
    ("mode", "number", "expected"),
    [(("-m",), signal.SIGINT, 130), pytest.param((), signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_an_interrupt_ends_in_one_line_with_nothing_half_written(
    tmp_path: Path, number: signal.Signals, expected: int, mode: tuple[str, ...]
):
    """Ctrl-C reaches the workers of a sweep too."""
    slow = (*SLOW, "mixer.seconds=0.1", "max_examples=512", "trainer.checkpoint_every=5")
    process = start(*mode, *SMALL, *slow, cwd=tmp_path)
    wait_for("last.ckpt", process, tmp_path)
    time.sleep(0.3)  # into the next step or the one after it
    os.killpg(process.pid, number)
    code, _, err = finish(process)
    assert (code, err) == (expected, "interrupted; the same command goes on where this one stopped\n")
    (folder,) = folders(tmp_path)
    assert not files(folder) & {"result.json", "error.txt", "claim.json"}
    saved = torch.load(folder / "last.ckpt", weights_only=True)["position"]["step"]
    assert saved % 5, "it is the step at hand that is saved, not the last that was due"


def test_the_source_of_a_users_part_is_read_when_its_cell_starts():
    """A user's part may change while a sweep runs; zoo's were imported when the sweep began."""
    assert "source" in process_pool._known(COMPOSER.cell(["mixer=attention"]))
    assert "source" not in process_pool._known(COMPOSER.cell(["mixer=faulty"]))
