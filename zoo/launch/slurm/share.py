"""Run one SLURM job: its share of a sweep's cells, each in a process of its own."""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from submitit.core.job_environment import JobEnvironment
from submitit.core.utils import DelayedSubmission

from zoo.common import forkserver, interrupts
from zoo.common.checks import reason
from zoo.config.cell import Cell
from zoo.launch.process_pool import PRELOADED, Pool
from zoo.launch.slurm import cluster
from zoo.launch.slurm.ledger import Tail, ended
from zoo.results import store
from zoo.results.atomic import DiskFull, room
from zoo.results.environment import machine
from zoo.results.outcome import Progress

GRACE_S = 25  # SLURM's time between SIGTERM and SIGKILL, KillWait, is 30 s by default
PROGRESS_EVERY_S = 5.0  # between two progress events of a cell; the file may lie on a network
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class CellsFailed(Exception):
    """Some cells failed; raised at the end of the job, so that SLURM marks the job as failed too."""


@dataclass
class Share:
    """The cells of one job.  submitit pickles it, calls it, and after a requeue calls it again.

    The progress of the cells is not in the pickle but in their folders, so that a requeue from an older
    pickle loses nothing.
    """

    cells: list[Cell]
    workers: int
    events: Path
    cwd: Path
    git: tuple[str | None, bool | None]  # the code's revision at submission, and whether the tree was clean
    pool: Pool | None = field(default=None, init=False, repr=False)

    def __call__(self) -> None:
        """Run every cell that is not done; CellsFailed, after all have run, if one failed."""
        signal.signal(signal.SIGTERM, self._terminated)
        os.chdir(self.cwd)
        through = ended(Tail(self.events).new())  # cells that ended before a requeue
        todo = [c for c in self.cells if not store.is_done(c.folder) and c.run_id not in through]
        diary = Diary(self.events)
        diary.began(self._revision())
        with interrupts.unheard(*SIGNALS):  # sent to the whole job; only this process answers them
            context = forkserver.start(PRELOADED)
        self.pool = Pool(context, self.workers, diary)
        try:
            failures = self.pool.run(todo)
        except DiskFull as error:
            with suppress(DiskFull):  # a short error.txt may still fit
                self._give_up(todo, diary, error)
            raise
        except Exception as error:  # submitit raises in its signal handler after the last requeue
            self._give_up(todo, diary, error)
            raise
        if failures:
            raise CellsFailed(f"{len(failures)} of {len(todo)} cells failed; the first: {failures[0].reason}")

    def checkpoint(self) -> DelayedSubmission:
        """Let every cell save and end; submitit calls this on SIGUSR2, and then requeues the job."""
        for kind in SIGNALS:
            signal.signal(kind, signal.SIG_IGN)
        if self.pool is not None:
            self.pool.stop(GRACE_S)
        pickle = JobEnvironment().paths.submitted_pickle
        pickle.with_suffix(pickle.suffix + ".save_tmp").unlink(missing_ok=True)  # else submitit fails on it
        return DelayedSubmission(replace(self))

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        """Handle a SIGTERM without SIGUSR2.  If SLURM calls the job RUNNING, only we can requeue it."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        state = cluster.state(JobEnvironment().job_id)  # SLURM_JOB_ID of an array's last job is the array's
        print(f"SIGTERM; SLURM has this job as {state}", flush=True)
        requeue = signal.getsignal(signal.SIGUSR2)
        if state == "RUNNING" and callable(requeue):
            requeue(signal.SIGUSR2, frame)
        if self.pool is not None:
            self.pool.stop(GRACE_S)
        sys.exit(128 + number)

    def _revision(self) -> str:
        (old, _), (new, _) = self.git, git()
        return f"the code is at {short(new)} now; it was at {short(old)} when submitted" if new != old else ""

    def _give_up(self, todo: list[Cell], diary: "Diary", error: Exception) -> None:
        through = ended(Tail(self.events).new())
        for cell in todo:
            if cell.run_id not in through and not store.is_done(cell.folder):
                store.fail(cell.folder, f"the job ended before this cell did: {reason(error)}\n")
                diary.failed(cell, f"the job ended before this cell did: {reason(error)}")


class Diary:
    """Records the pool's events: as lines of JSON for the command that follows, and in the job's log."""

    def __init__(self, path: Path) -> None:
        self.path, self.last_sent = path, dict[str, float]()

    def began(self, note: str) -> None:
        self._write({"event": "began", "job_id": JobEnvironment().job_id, "note": note})

    def started(self, *cells: Cell) -> None:
        for cell in cells:
            self._write({"event": "started", "run_id": cell.run_id}, f"{cell}: started")

    def progress(self, cell: Cell, at: Progress) -> None:
        now = time.monotonic()
        if now - self.last_sent.get(cell.run_id, -PROGRESS_EVERY_S) >= PROGRESS_EVERY_S:
            self.last_sent[cell.run_id] = now
            self._write({"event": "progress", "run_id": cell.run_id, "at": asdict(at)})

    def finished(self, cell: Cell, record: dict[str, Any]) -> None:
        self._write({"event": "finished", "run_id": cell.run_id}, f"{cell}: {record['status']}")

    def failed(self, cell: Cell, reason: str) -> None:
        self._write({"event": "failed", "run_id": cell.run_id, "reason": reason}, f"{cell}: FAILED  {reason}")

    def _write(self, event: dict[str, Any], line: str = "") -> None:
        """Write an event in one call; the newline before it ends a line that a kill cut off."""
        with room(self.path), self.path.open("a") as file:
            file.write(f"\n{json.dumps(event)}\n")
        if line or event.get("note"):
            print(time.strftime("%H:%M:%S"), line or event["note"], flush=True)


def git() -> tuple[str | None, bool | None]:
    """Return the revision of the running code, and whether its tree is clean, as in every record."""
    return machine()["git_revision"], machine()["git_clean"]


def short(revision: str | None) -> str:
    return revision[:10] if revision else "no known revision"
