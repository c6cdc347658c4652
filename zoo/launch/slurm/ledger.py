"""Keep the folder of one submission: what was submitted, and the events of its jobs while they run.

    results/.slurm/<id>/submission.json    the code's revision, the settings, which cells make which job
                        events/00007.jsonl the events of job 7, a line each; only job 7 writes it
                        12_7_0_log.out     its output, and submitit's own files

One sweep (zoo/results/manifest.py) may take several submissions: each submits the cells that were missing.
The id is in the name of every job, zoo-<id>.<number of the array's first job>, so that the queue itself
tells which cells are in it; a job number alone could be another cluster's.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from zoo.config.cell import Cell
from zoo.launch.slurm.cluster import Job
from zoo.results import atomic

HOME = ".slurm"  # in the results folder
PREFIX = "zoo-"


@dataclass(frozen=True)
class Ledger:
    """One submission.  shares: the run ids of each of its jobs."""

    folder: Path
    shares: list[list[str]]

    @classmethod
    def new(cls, home: Path, shares: Sequence[Sequence[Cell]], about: dict[str, Any]) -> Self:
        """Write the ledger, before anything is submitted."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = home.absolute() / HOME / f"{stamp}-{os.urandom(2).hex()}"
        (folder / "events").mkdir(parents=True)
        run_ids = [[cell.run_id for cell in share] for share in shares]
        atomic.write(folder / "submission.json", json.dumps(about | {"shares": run_ids}, indent=1) + "\n")
        return cls(folder, run_ids)

    @classmethod
    def read(cls, home: Path, submission_id: str) -> Self | None:
        """Read the ledger of an earlier submission; None: it is another results folder's."""
        folder = home.absolute() / HOME / submission_id
        try:
            return cls(folder, json.loads((folder / "submission.json").read_text())["shares"])
        except FileNotFoundError:
            return None  # another results folder's

    @property
    def submission_id(self) -> str:
        """Return the name of the submission's folder."""
        return self.folder.name

    def events(self, number: int) -> Path:
        """Return the path of a job's events."""
        return self.folder / "events" / f"{number:05d}.jsonl"

    def job_name(self, first: int) -> str:
        """Return the name that the queue shows for an array."""
        return f"{PREFIX}{self.submission_id}.{first}"


def share_of(job: Job) -> tuple[str, int] | None:
    """Return the submission and the number of the share that a job works on; None: no job of zoo's."""
    submission_id, dot, first = job.name.removeprefix(PREFIX).rpartition(".")
    if not job.name.startswith(PREFIX) or not dot or not first.isdigit():
        return None
    return submission_id, int(first) + job.index


class Tail:
    """Reads the lines of a growing file of JSON, each once."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the events written since the last call, only from complete lines."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # empty, or cut off by a kill


def ended(events: Iterable[dict[str, Any]]) -> set[str]:
    """Return the run ids of the cells that a job has finished or that failed: it will not run them again."""
    return {event["run_id"] for event in events if event["event"] in ("finished", "failed")}
