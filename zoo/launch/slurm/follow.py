"""Watch jobs until each of their cells has a result or an error.

The jobs write events about what they do, result.json shows which cells are done, and the queue, read now and
then, shows which jobs have ended and will write no more.  No accounting database is needed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.config.cell import Cell
from zoo.launch.display import SweepDisplay
from zoo.launch.slurm import cluster
from zoo.launch.slurm.ledger import Ledger, Tail, share_of
from zoo.results import lease, store
from zoo.results.outcome import Failure, Progress

SETTLE_S = 15.0  # a network file system may show a file with this delay
LOOK_S = 1.0  # between two reads of the events of running jobs


@dataclass
class Part:
    """One job, with those of its cells that have not ended."""

    ledger: Ledger
    job_name: str
    number: int
    cells: dict[str, Cell]
    state: str = "PENDING"
    job_id: str = ""
    ended_at: float | None = None  # when the queue was first seen without it
    over: bool = False  # whether it has been gone so long that its last events must have arrived
    failed: dict[str, str] = field(default_factory=dict)  # run id -> reason

    def __post_init__(self) -> None:
        self.tail = Tail(self.ledger.events(self.number))

    def death(self) -> str:
        """Write the error.txt text of a cell whose job ended without a result."""
        log = self.ledger.folder / f"{self.job_id}_0_log.err"
        end = log.read_text(errors="replace")[-2000:] if self.job_id and log.exists() else ""
        name = f"SLURM job {self.job_id}" if self.job_id else "its SLURM job"
        return f"{name} ended ({self.state}) before this cell had a result\nthe end of {log}:\n{end}"


def follow(parts: Sequence[Part], display: SweepDisplay, poll_s: float) -> list[Failure]:
    """Wait until every cell of every part has ended; return the failures.  Ctrl-C leaves the jobs alone."""
    watch = Watch(parts, display)
    try:
        while watch.open:
            watch.ask()
            until = time.monotonic() + poll_s
            while watch.open and time.monotonic() < until:
                watch.look()
                time.sleep(min(LOOK_S, poll_s))
    except KeyboardInterrupt:
        display.console.print("the jobs go on without this command")
        raise
    return watch.failures


class Watch:
    """Follows the open parts: `ask` reads the queue, `look` reads events and folders; collects `failures`."""

    def __init__(self, parts: Sequence[Part], display: SweepDisplay) -> None:
        self.open, self.display = list(parts), display
        self.names = sorted({part.job_name for part in parts})
        self.shown = set[str]()
        self.failures: list[Failure] = []

    def ask(self) -> None:
        """Read the queue.  While SLURM's controller does not answer, no job is taken to have ended."""
        try:
            jobs = cluster.jobs(self.names)
        except cluster.NoAnswer as error:
            self.display.note(f"{error}; waiting")
            return
        by_share = {share_of(job): job for job in jobs}
        for part in self.open:
            job = by_share.get((part.ledger.submission_id, part.number))
            part.state = job.state if job else cluster.GONE
            part.job_id = job.job_id if job else part.job_id
            part.ended_at = None if job and job.live else part.ended_at or time.monotonic()
            part.over = part.ended_at is not None and time.monotonic() - part.ended_at > SETTLE_S
        self.display.note(_pending([job for job in jobs if job.state == "PENDING"]))

    def look(self) -> None:
        """Read the events of the jobs and the folders of their cells."""
        for part in self.open:
            if part.state == "PENDING":
                continue
            for event in part.tail.new():
                self._handle(part, event)
            self._settle(part)
        self.open = [part for part in self.open if part.cells]

    def _handle(self, part: Part, event: dict[str, Any]) -> None:
        if event["event"] == "began":
            part.job_id = event["job_id"]
            for cell in part.cells.values():
                if cell.run_id in self.shown:
                    self.shown.discard(cell.run_id)
                    self.display.stopped(cell)  # requeued: it starts again
            if event["note"]:
                self.display.console.print(f"job {part.job_id}: {event['note']}", markup=False)
            return
        cell = part.cells.get(event["run_id"])
        if cell is None:
            return
        if event["event"] == "failed":
            part.failed[cell.run_id] = event["reason"]
        elif event["event"] != "finished":
            self._show(cell)
        if event["event"] == "progress":
            self.display.progress(cell, Progress(**event["at"]))

    def _settle(self, part: Part) -> None:
        """Close the cells that have ended."""
        for cell in list(part.cells.values()):
            if store.is_done(cell.folder):
                self._show(cell)
                self.display.finished(cell, store.read(cell.folder))
            elif cell.run_id in part.failed or (part.over and not lease.holder(cell.folder)):
                self._fail(part, cell)  # but not while another driver's process runs it
            else:
                continue
            self.shown.discard(cell.run_id)
            del part.cells[cell.run_id]

    def _fail(self, part: Part, cell: Cell) -> None:
        if cell.run_id not in part.failed:
            store.fail(cell.folder, part.death())
        reason = part.failed.get(cell.run_id) or store.error(cell.folder)
        self._show(cell)
        self.display.failed(cell, reason)
        self.failures.append(Failure(cell, reason))

    def _show(self, cell: Cell) -> None:
        if cell.run_id not in self.shown:
            self.shown.add(cell.run_id)
            self.display.started(cell)


def _pending(jobs: Sequence[cluster.Job]) -> str:
    """Return in words how many jobs wait, and for what reasons."""
    reasons = sorted({job.reason for job in jobs} - {"None", "Resources", "Priority", "JobArrayTaskLimit"})
    return (f"{len(jobs)} jobs pending " + " ".join(f"({r})" for r in reasons)).strip() if jobs else ""
