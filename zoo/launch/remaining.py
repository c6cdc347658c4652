"""Estimate the time left: what a cell takes, times the cells that are left, over the workers."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from zoo.config.cell import Cell

LEAST_S = 2.0  # of training seen before its pace is believed
LEAST_SHARE = 0.05  # or of its steps
MOST_ENDED = 100  # the latest cells that others are judged by


@dataclass
class Running:
    """A cell at work.  members: how many its process trains as one."""

    members: int
    began: float
    elsewhere: bool
    first: tuple[float, int] | None = None  # when it first reported, and at which step
    last: tuple[float, int] = (0.0, 0)
    total: int = 0

    def progress(self, now: float, step: int, total: int) -> None:
        """Note a report from training."""
        self.first = self.first or (now, step)
        if step > self.last[1] or total != self.total:
            self.last, self.total = (now, step), total

    @property
    def pace(self) -> float | None:
        """Seconds a step, evaluations between them included; None: not known yet."""
        if self.first is None:
            return None
        seconds, steps = self.last[0] - self.first[0], self.last[1] - self.first[1]
        known = steps > 0 and (seconds >= LEAST_S or steps >= LEAST_SHARE * self.total)
        return seconds / steps if known else None

    @property
    def share_left(self) -> float:
        """The part of its steps that is still to be taken."""
        return 1 - self.last[1] / self.total if self.total else 1.0

    def seconds_left(self, now: float) -> float | None:
        """Seconds until its last step; None: not known yet."""
        if self.pace is None:
            return None
        return max(0.0, (self.total - self.last[1]) * self.pace - (now - self.last[0]))


class Remaining:
    """Estimates the time left whenever a display asks; told by it what happens.

    workers: processes at once; None: as many as are running when it is asked.
    """

    def __init__(
        self, todo: Sequence[Cell], workers: int | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.workers, self.now = workers, now
        self.waiting = {cell.run_id for cell in todo}
        self.running: dict[str, Running] = {}
        self._took: deque[float] = deque(maxlen=MOST_ENDED)  # seconds of a worker for each cell that ended

    def started(self, cells: Sequence[Cell], elsewhere: bool = False) -> None:
        """Note that one process has begun with these cells.  elsewhere: it is no worker of this sweep."""
        for cell in cells:
            self.waiting.discard(cell.run_id)
            self.running[cell.run_id] = Running(len(cells), self.now(), elsewhere)

    def progress(self, run_id: str, step: int, total: int) -> None:
        """Note how far a cell is."""
        if not self.running[run_id].elsewhere:
            self.running[run_id].progress(self.now(), step, total)

    def stopped(self, run_id: str) -> None:
        """Note that a cell waits to go on."""
        del self.running[run_id]
        self.waiting.add(run_id)

    def ended(self, run_id: str, whole: bool) -> None:
        """Note that a cell has ended.  whole: it trained to its end, so that others may be judged by it."""
        run = self.running.pop(run_id)
        if whole and not run.elsewhere:
            before = run.first[1] * (run.pace or 0.0) if run.first else 0.0  # steps of an earlier attempt
            self._took.append((self.now() - run.began + before) / run.members)

    def of(self, run_id: str) -> float | None:
        """Return the seconds until a running cell ends; None: not known yet."""
        run = self.running.get(run_id)
        return run.seconds_left(self.now()) if run else None

    def all(self) -> float | None:
        """Return the seconds until the last cell ends; None: not known yet."""
        running = [run for run in list(self.running.values()) if not run.elsewhere]
        cells = len(self.waiting) + sum(run.share_left for run in running)
        if not cells:
            return None if self.running else 0.0
        paced = [run.pace * run.total / run.members for run in running if run.pace is not None]
        if not (self._took or paced):
            return None
        processes = sum(1 / run.members for run in running)
        workers = self.workers or max(1.0, processes)
        at_once = max(1.0, min(workers, len(self.waiting) + processes))
        left = (run.seconds_left(self.now()) or 0.0 for run in running)
        return max(median(self._took or paced) * cells / at_once, *left, 0.0)


def duration(seconds: float) -> str:
    """Write a time with two digits and a unit: no more of it is known."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= 1.5 * size or unit == "s":
            return f"{seconds / size:.2g} {unit}" if seconds < 99 * size else f"{seconds / size:,.0f} {unit}"
    raise AssertionError
