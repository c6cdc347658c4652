"""A sweep that is disturbed again and again, and what must hold of its folder each time."""

import io
import json
import subprocess
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from tests.command import DONE, SMALL, TOYS, start, until
from tests.toys.faulty import PACE
from zoo import run
from zoo.results import lease, store

CELLS = ("mixer=faulty", "mixer.seconds=0.05", "max_examples=64", "optim.eval_batch_size=64")
SWEEP = ("-m", *SMALL, *CELLS, "trainer.checkpoint_every=2", "hydra.launcher.n_workers=2")
PATIENCE_S = 120


class Sweep:
    """One command, given again and again in one place."""

    def __init__(self, place: Path, seeds: int, *words: str) -> None:
        self.place, self.words = place, (*SWEEP, f"seed=range({seeds})", *words)
        self.finished: dict[Path, list[tuple[str, int, int]]] = {}

    def start(self, python_path: str = "") -> subprocess.Popen[str]:
        return start(*self.words, cwd=self.place, python_path=python_path)

    def run(self) -> tuple[int, str]:
        """Exit code and errors; in this process and as fast as it goes, for nothing disturbs it."""
        errors = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stderr(errors):
            patch.setenv(PACE, "0")
            patch.chdir(self.place)
            patch.setattr(sys, "argv", ["zoo.run", "--config-dir", str(TOYS), *self.words])
            code = run.main()
        return code, errors.getvalue()

    def folders(self) -> list[Path]:
        return sorted(self.place.glob("results/faulty-*"))

    def at_work(self) -> list[int]:
        """The processes that hold a cell."""
        return [holder.pid for folder in self.folders() if (holder := lease.holder(folder))]

    def failed(self) -> set[Path]:
        return {folder for folder in self.folders() if (folder / "error.txt").exists()}

    def until_at_work(self, process: subprocess.Popen[str] | None = None) -> None:
        """On some cell; in that process, or in this one."""
        until(self.at_work, process, PATIENCE_S)

    def look(self) -> None:
        """After each kill: what stands there is whole, and what was finished before lies untouched."""
        end = time.monotonic() + 20
        while self.at_work() and time.monotonic() < end:
            time.sleep(0.05)
        assert not self.at_work(), "an orphan goes on"
        for folder, before in self.finished.items():
            assert stats(folder) == before, f"{folder} was done again"
        for folder in self.folders():
            for path in [*folder.glob("*.json"), *self.place.glob("results/.sweeps/*.json")]:
                json.loads(path.read_text())
            store.check_checkpoint(folder)
            if store.is_done(folder):
                assert store.read(folder)["status"] == "ok"
                assert not (folder / "error.txt").exists()
                self.finished[folder] = stats(folder)

    def complete(self, undisturbed: "Sweep") -> None:
        """The command once more, to its end: as if nothing had happened."""
        assert self.run() == (0, "")
        self.look()
        same_numbers(self.folders(), undisturbed.folders())
        for folder in self.folders():  # one may have been killed behind its record
            assert {path.name for path in folder.iterdir()} - {"last.ckpt"} == DONE
        assert litter(self.place / "results") == []


def same_numbers(found: list[Path], undisturbed: list[Path]) -> None:
    """Folders of the same cells, whose scores and curves are the same."""
    assert [folder.name for folder in found] == [folder.name for folder in undisturbed]
    for folder, other in zip(found, undisturbed, strict=True):
        assert store.read(folder)["slices"] == store.read(other)["slices"]
        assert (folder / "metrics.csv").read_bytes() == (other / "metrics.csv").read_bytes()


def stats(folder: Path) -> list[tuple[str, int, int]]:
    """Of the files that make a record: which they are, and when they were written."""
    found = [(path.name, path.stat()) for path in sorted(folder.iterdir()) if path.name in DONE]
    return [(name, stat.st_ino, stat.st_mtime_ns) for name, stat in found]


def litter(folder: Path) -> list[str]:
    return [str(p) for p in folder.rglob("*") if p.suffix in (".part", ".dead") or "probe" in p.name]
