"""A disk that fills up: one line that says so and where, nothing that looks finished, and on from there."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import SMALL, Zoo
from tests.disturbed import Sweep, litter
from zoo.results import store

CELLS = 6
BALLAST = 140 << 10  # leaves room for two cells and a bit
WINDOW = "mixer=sliding_window"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 kB: a cell keeps about 40, and needs as much again while it trains."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        [*["mount", "-t", "tmpfs", "-o", "size=400k", "none"], place], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no small disk can be made here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def zoo(small: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Zoo:
    monkeypatch.chdir(small)
    return Zoo(monkeypatch, capfd)


def check_end(code: int, err: str, place: Path) -> None:
    assert (code, len(err.splitlines())) == (1, 1), err
    assert err.startswith("the disk is full: results/")
    assert " could not be written (No space left on device); make room, and the same command goes on" in err
    assert litter(place) == []


def test_a_sweep_meets_the_end_of_its_disk(tmp_path: Path, small: Path):
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


def test_a_cell_meets_the_end_of_its_disk(zoo: Zoo, small: Path):
    (small / "ballast").write_bytes(bytes(300 << 10))  # no room for a checkpoint
    words = (*SMALL, WINDOW, "d_model=32")
    code, _, err = zoo(*words)
    check_end(code, err, small)
    (folder,) = small.glob("results/sliding_window-*")
    assert not store.is_done(folder) and not (folder / "claim.json").exists()
    (small / "ballast").unlink()
    code, _, err = zoo(*words)
    assert (code, err) == (0, "") and store.is_done(folder)


def test_a_disk_that_is_full_already(zoo: Zoo, small: Path):
    with (small / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    code, out, err = zoo("-m", *SMALL, WINDOW)
    assert code in (1, 2) and len(err.splitlines()) == 1, err
    assert "No space left on device" in err and "ok" not in out
