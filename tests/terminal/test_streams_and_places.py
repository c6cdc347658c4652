"""A command with closed streams, missing folders or a full disk ends in one line and loses nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import SMALL, Run, Zoo
from tests.disturbed import Sweep, litter
from zoo import status
from zoo.config.compose import composer
from zoo.results import store

CELLS = 6
BALLAST = 140 << 10  # leaves room for two cells and a bit
WINDOW = "mixer=sliding_window"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 400 kB; a cell stores about 40 and needs as much again while it trains."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small disk can be made here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def zoo_on_it(small: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Zoo:
    monkeypatch.chdir(small)
    return Zoo(monkeypatch, capfd)


def check_end(code: int, err: str, place: Path) -> None:
    assert (code, len(err.splitlines())) == (1, 1), err
    assert err.startswith("the disk is full: results/")
    assert " could not be written (No space left on device); make room, and the same command goes on" in err
    assert litter(place) == []


def test_a_sweep_on_a_disk_that_fills_up_can_be_completed(tmp_path: Path, small: Path):
    (tmp_path / "large").mkdir()
    undisturbed, sweep = Sweep(tmp_path / "large", CELLS), Sweep(small, CELLS)
    assert undisturbed.run() == (0, "")
    (small / "ballast").write_bytes(bytes(BALLAST))
    check_end(*sweep.run(), small)
    sweep.look()
    assert 0 < len(sweep.finished) < CELLS
    assert [*small.glob("results/*/error.txt")] == []
    subprocess.run(["mount", "-o", "remount,size=8m", small], check=True)
    sweep.complete(undisturbed)


def test_a_cell_on_a_disk_that_fills_up_can_be_completed(zoo_on_it: Zoo, small: Path):
    (small / "ballast").write_bytes(bytes(300 << 10))  # no room for a checkpoint
    words = (*SMALL, WINDOW, "d_model=32")
    code, _, err = zoo_on_it(*words)
    check_end(code, err, small)
    (folder,) = small.glob("results/sliding_window-*")
    assert not store.is_done(folder) and not (folder / "claim.json").exists()
    (small / "ballast").unlink()
    zoo_on_it.done(*words)
    assert store.is_done(folder)


def test_a_full_disk_is_one_line(zoo_on_it: Zoo, small: Path):
    with (small / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    code, out, err = zoo_on_it("-m", *SMALL, WINDOW)
    assert code in (1, 2) and len(err.splitlines()) == 1, err
    assert "No space left on device" in err and "ok" not in out


RUN = [sys.executable, "-m", "zoo.run", *SMALL, WINDOW]


def ended(words: list[str], place: Path, redirected: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, with this redirection."""
    line = f'cd "{place}" && "$@" {redirected}'
    return subprocess.run(["sh", "-c", line, "sh", *words], capture_output=True, text=True, timeout=120)


def test_a_closed_stderr_loses_no_cell(tmp_path: Path):
    """Its file descriptor had gone to the first file that a worker opened."""
    done = ended([*RUN, "-m", "seed=0,1", "hydra.launcher.n_workers=1"], tmp_path, "2>&-")
    assert (done.returncode, "FAILED" in done.stdout) == (0, False)
    assert len([*tmp_path.glob("results/*/result.json")]) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [RUN, [sys.executable, "-m", "zoo"]], ids=["run", "help"])
def test_a_full_disk_behind_stdout_is_one_line(tmp_path: Path, words: list[str]):
    done = ended(words, tmp_path, "> /dev/full")
    assert done.returncode == 1
    assert done.stderr == "what this command prints cannot be written: No space left on device\n"


def test_letters_that_stdout_lacks_are_escaped(tmp_path: Path):
    done = ended(["env", "PYTHONIOENCODING=ascii", *RUN, "results=ü"], tmp_path, "")
    assert done.returncode == 0 and "the record: \\xfc/" in done.stdout


def test_a_deleted_current_folder_is_one_line(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    line = ["sh", "-c", 'cd "$1" && rmdir "$1" && shift && "$@"', "sh", str(gone), *RUN]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "the current folder has been deleted: cd to one that exists.\n"


@pytest.mark.parametrize("mode", [[], ["-m"]])
def test_a_file_in_place_of_a_folder_and_the_reverse(zoo: Zoo, tmp_path: Path, mode: list[str]):
    words = [*mode, *SMALL, WINDOW]
    folder = composer().cell([*SMALL, WINDOW]).folder
    (folder / "claim.json").mkdir(parents=True)
    assert "claim.json is a folder, and a file belongs there" in zoo.refused(*words)
    (folder / "claim.json").rmdir()
    (folder.parent / ".sweeps").touch()
    assert ".sweeps is a file, and a folder belongs there" in zoo.refused(*words)


@pytest.mark.parametrize("every", ["inf", "nan", "0", "-1"])
def test_an_impossible_interval_is_refused(tmp_path: Path, run: Run, every: str):
    assert "must be seconds" in run.line(status.main, tmp_path, "--watch", "--every", every)
