"""How long cells still take: what the plan's forecast says, corrected by how fast they turn out to be."""

import heapq
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from zoo.config.cell import Cell

LEAST_S = 2.0  # of training seen before its pace is believed
LEAST_SHARE = 0.05  # or of its steps
MOST_SEEN = 100  # the latest cells that others are judged by


@dataclass(frozen=True)
class Forecast:
    """Seconds that a cell of a point will take; sure: as earlier cells like it did, rather than a guess."""

    seconds: float
    sure: bool


@dataclass
class Running:
    """A cell at work.  together: run ids of those that its process trains."""

    cell: Cell
    together: tuple[str, ...]
    began: float
    elsewhere: bool = False
    first: tuple[float, int] | None = None  # when it was first heard of, and at which step
    last: tuple[float, int] = (0.0, 0)
    total: int = 0

    def hear(self, now: float, step: int, total: int) -> None:
        self.first = self.first or (now, step)
        if step > self.last[1] or total != self.total:
            self.last, self.total = (now, step), total

    def pace(self) -> float | None:
        """Seconds a step, evaluations between them included; None: not known yet."""
        if self.first is None:
            return None
        seconds, steps = self.last[0] - self.first[0], self.last[1] - self.first[1]
        known = steps > 0 and (seconds >= LEAST_S or steps >= LEAST_SHARE * self.total)
        return seconds / steps if known else None

    def took(self, now: float, ended: bool = False) -> "Seen":
        """The whole cell, what it has before it at its pace; and steps of an earlier attempt, too."""
        pace, (at, step) = self.pace() or 0.0, self.last
        first = self.first[1] if self.first else 0
        seconds = now - self.began if ended else at - self.began + (self.total - step) * pace
        through = ended and pace > 0 and step == self.total
        tail = (now - at) / (pace * self.total) if through else None
        return Seen(self.cell, (seconds + first * pace) / len(self.together), tail)


@dataclass(frozen=True)
class Seen:
    """What a whole cell took, or will at its pace: seconds of a worker.  tail: after its last step, as a
    multiple of the training's seconds; None: it has not come so far."""

    cell: Cell
    seconds: float
    tail: float | None


class Evidence:
    """What cells took that were seen, to be asked for the nearest: of a cell's point, its mixer, else any."""

    def __init__(self, seen: Iterable[Seen]) -> None:
        self.all = list(seen)
        self.like: dict[str, list[Seen]] = defaultdict(list)
        for one in self.all:
            self.like[one.cell.point].append(one)
            self.like[one.cell.mixer].append(one)

    def near(self, cell: Cell) -> list[Seen]:
        return self.like.get(cell.point) or self.like.get(cell.mixer) or self.all


class Remaining:
    """Asked by a display as often as it likes; told by it what happens.

    workers: processes at once; None: as many as are running when it is asked.
    """

    def __init__(
        self, todo: Sequence[Cell], workers: int | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.workers, self.now = workers, now
        self.waiting = {cell.run_id: cell for cell in todo}
        self.running: dict[str, Running] = {}
        self.forecasts: Mapping[str, Forecast] = {}  # by point
        self._ended: deque[Seen] = deque(maxlen=MOST_SEEN)
        self._lock = threading.Lock()  # a live display asks from a thread of its own

    def started(self, cells: Sequence[Cell], elsewhere: bool = False) -> None:
        """One process has begun with these cells."""
        together = tuple(cell.run_id for cell in cells)
        with self._lock:
            for cell in cells:
                self.waiting.pop(cell.run_id, None)
                self.running[cell.run_id] = Running(cell, together, self.now(), elsewhere)

    def progress(self, run_id: str, step: int, total: int) -> None:
        with self._lock:
            if not self.running[run_id].elsewhere:
                self.running[run_id].hear(self.now(), step, total)

    def stopped(self, run_id: str) -> None:
        """It waits to go on."""
        with self._lock:
            self.waiting[run_id] = self.running.pop(run_id).cell

    def ended(self, run_id: str, whole: bool) -> None:
        """whole: it trained to its end, so that others may be judged by it."""
        with self._lock:
            run = self.running.pop(run_id)
            if whole and not run.elsewhere:
                self._ended.append(run.took(self.now(), ended=True))

    def of(self, run_id: str) -> float | None:
        """Seconds until a running cell ends; None: not known yet."""
        with self._lock:
            run = self.running.get(run_id)
            return self._left(run, self._evidence()) if run else None

    def all(self) -> float | None:
        """Seconds until the last cell ends; None: not known yet."""
        with self._lock:
            evidence = self._evidence()
            busy: dict[tuple[str, ...], float] = {}
            for run in self.running.values():
                left = self._left(run, evidence)
                if left is None:
                    return None
                busy[run.together] = max(left, busy.get(run.together, 0.0))
            return self._worked_off(busy, evidence)

    def _worked_off(self, busy: dict[tuple[str, ...], float], evidence: Evidence) -> float | None:
        """Those that wait, each taken up by the worker that is free first.  busy: process -> seconds."""
        elsewhere = {run.together for run in self.running.values() if run.elsewhere}
        free = [left for process, left in busy.items() if process not in elsewhere]
        free += [0.0] * ((self.workers or 0) - len(free))
        if self.waiting and not free:
            return None
        heapq.heapify(free)
        takes = {cell.point: self._whole(cell, evidence) for cell in self.waiting.values()}
        for cell in self.waiting.values():
            whole = takes[cell.point]
            if whole is None:
                return None
            heapq.heapreplace(free, free[0] + whole)
        return max([*free, *busy.values()], default=0.0)

    def _left(self, run: Running, evidence: Evidence) -> float | None:
        now, pace = self.now(), run.pace()
        if pace is not None:
            tails = [seen.tail for seen in evidence.near(run.cell) if seen.tail is not None]
            tail = median(tails) * run.total if tails else 0.0
            at, step = run.last
            return max(0.0, (run.total - step + tail) * pace - (now - at))
        whole = self._whole(run.cell, evidence)
        if whole is None:
            return None
        to_do = 1 - run.first[1] / run.total if run.first else 1.0
        return max(0.0, whole * len(run.together) * to_do - (now - run.began))

    def _whole(self, cell: Cell, evidence: Evidence) -> float | None:
        """Seconds of a worker for the whole cell: what its point took, else its forecast, corrected by how
        far the forecasts of its mixer, else of all, were off."""
        near, own = evidence.near(cell), self.forecasts.get(cell.point)
        if near and (own is None or near[0].cell.point == cell.point):
            return median(seen.seconds for seen in near)
        if own is None:
            return None
        known = [(seen.seconds, self.forecasts.get(seen.cell.point)) for seen in near]
        off = [seconds / forecast.seconds for seconds, forecast in known if forecast]
        if off:
            return own.seconds * median(off)
        return own.seconds if own.sure else None

    def _evidence(self) -> Evidence:
        """Cells that have ended, and those at work whose pace is known."""
        paced = (run.took(self.now()) for run in self.running.values() if run.pace() is not None)
        return Evidence([*self._ended, *islice(paced, MOST_SEEN)])


def forecasts(cells: Sequence[Cell]) -> Iterator[tuple[str, Forecast]]:
    """Point -> what `zoo.plan` says of its cells.  ValueError or OSError: an earlier record is damaged."""
    from zoo.evaluation.flops import cost
    from zoo.launch.time_estimate import Clock
    from zoo.model import outline

    clocks = {folder: Clock(folder) for folder in {cell.folder.parent for cell in cells}}
    for cell in {cell.point: cell for cell in cells}.values():
        clock, kind = clocks[cell.folder.parent], cell.trainer.accelerator
        seconds, source = clock.seconds(cell, cost(cell, outline(cell)), kind)
        yield cell.point, Forecast(seconds, source in ("point", "mixer"))


def duration(seconds: float) -> str:
    """Two digits and a unit: no more of it is known."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= 1.5 * size or unit == "s":
            return f"{seconds / size:.2g} {unit}" if seconds < 99 * size else f"{seconds / size:,.0f} {unit}"
    raise AssertionError
