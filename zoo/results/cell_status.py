"""Read the status of each cell of a results folder or archive from its files alone.

done, diverged   it has a record; diverged: its loss was not finite
running          a living process has claimed it
stale            claimed by a process that is dead or silent; the next run of its command goes on with it
failed           it has an error.txt; the next run of its command tries it again
pending          a sweep wants it, or it was interrupted and has saved, and no process runs it
damaged          it has a result.json that cannot be read, or is another cell's
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from zoo.common.foreign import visible
from zoo.results import lease, store

State = Literal["done", "diverged", "running", "stale", "failed", "pending", "damaged"]
STATES: tuple[State, ...] = get_args(State)
OVER = ("done", "diverged")  # states that do not change any more
TAIL = 4096  # bytes, more than a row of metrics.csv has


@dataclass(frozen=True, slots=True)
class Standing:
    """The status of a cell.  note: which process runs it and its step, or why it failed, or ""."""

    run_id: str
    state: State
    note: str = ""


class Look:
    """Reads the status of a folder's or archive's cells, repeatedly; no record is read a second time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.over: dict[str, Standing] = {}

    def __call__(self, wanted: Iterable[str] = ()) -> list[Standing]:
        """Return the status of every cell with a folder here, and of all `wanted` run ids, by run id.

        ValueError, one line with the fix: there is neither a folder nor an archive.
        """
        cells = {cell.run_id: cell for folder in store.cells(self.home) if (cell := self._at(folder))}
        cells |= {run_id: Standing(run_id, "pending") for run_id in wanted if run_id not in cells}
        return [cells[run_id] for run_id in sorted(cells)]

    def _at(self, folder: store.Home) -> Standing | None:
        name = folder.name
        if name in self.over and store.is_done(folder):
            return self.over[name]
        self.over.pop(name, None)
        try:
            standing = stand(folder)
        except FileNotFoundError:
            return None  # the folder was removed meanwhile
        except OSError as error:
            standing = Standing(name, "damaged", visible(str(error)))
        if standing and standing.state in OVER:
            self.over[name] = standing
        return standing


def stand(folder: store.Home) -> Standing | None:
    """Return the status of the cell of this folder; None: it is no cell's folder."""
    if not isinstance(folder, Path):
        return _ended(folder)  # an archive holds finished cells
    names = set(os.listdir(folder))
    if "result.json" in names:
        return _ended(folder)
    if lease.NAME in names:
        if someone := lease.holder(folder):
            return Standing(folder.name, "running", f"{someone}{_progress(folder)}")
        if "error.txt" not in names and (gone := lease.left_behind(folder)):
            return Standing(folder.name, "stale", f"{gone}, {_ago(folder / lease.NAME)}")
        if "error.txt" not in names:
            return stand(folder)  # the claim was released since the files were listed, so the cell has ended
    if "error.txt" in names:
        return Standing(folder.name, "failed", store.error(folder))
    if "config.yaml" not in names:
        return None
    return Standing(folder.name, "pending", f"interrupted{_progress(folder)}")


def _ended(folder: store.Home) -> Standing:
    try:
        diverged = store.read(folder)["status"] == "diverged"
    except ValueError as error:
        return Standing(folder.name, "damaged", str(error))
    return Standing(folder.name, "diverged" if diverged else "done")


def _progress(folder: Path) -> str:
    """Return the step of the last row of metrics.csv: ", step 300"; "": there is no row."""
    path = folder / "metrics.csv"
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            first = file.read().splitlines()[-1].partition(b",")[0]
    except (FileNotFoundError, IndexError):
        return ""
    return f", step {int(first)}" if first.isdigit() and len(first) < 20 else ""


def _ago(path: Path) -> str:
    """Return for how long the claim's file has not been touched, in words."""
    try:
        seconds = time.time() - path.lstat().st_mtime
    except FileNotFoundError:
        return "gone"
    return f"silent for {seconds:.0f} s" if seconds < 120 else f"silent for {seconds / 60:.0f} min"
