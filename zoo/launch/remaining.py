"""Estimate the time that a sweep still needs: the work left, at the pace of the work done."""

import time
from collections.abc import Callable

LEAST_S, LEAST_DONE = 2.0, 0.05  # seconds, or cells' worth of steps, before a pace is believed


class Remaining:
    """Estimates the time until all cells of a sweep have ended, from the shares of their steps that are done.

    The estimate is at least what the slowest running cell needs at its own pace.  Steps of an earlier attempt
    and cells that failed do not count as work done.
    """

    def __init__(self, cells: int, now: Callable[[], float] = time.monotonic) -> None:
        self.cells, self.now = cells, now
        self.began: float | None = None
        self.shares: dict[str, tuple[float, float, float]] = {}  # run id -> first report: when, share; now's

    def progress(self, run_id: str, share: float) -> None:
        """Note which share of its steps a cell has done."""
        now = self.now()
        self.began = self.began or now
        began, first, _ = self.shares.get(run_id, (now, share, share))
        self.shares[run_id] = began, first, share

    def ended(self, run_id: str, whole: bool) -> None:
        """Note that a cell has ended.  whole: it trained to its end."""
        if whole:
            self.shares[run_id] = *self.shares.get(run_id, (0.0, 0.0))[:2], 1.0
        else:
            self.shares.pop(run_id, None)
            self.cells -= 1

    def seconds(self) -> float | None:
        """Return the seconds until the last cell ends; None: not known yet."""
        now = self.now()
        done = sum(share - first for _, first, share in self.shares.values())
        left = self.cells - sum(share for _, _, share in self.shares.values())
        if left <= 0:
            return 0.0
        together = _at_pace(left, done, now - (self.began or now))
        each = [
            _at_pace(1 - share, share - first, now - began) for began, first, share in self.shares.values()
        ]
        return together and max(together, *(seconds or 0.0 for seconds in each))


def _at_pace(left: float, done: float, elapsed: float) -> float | None:
    """Return the seconds for the work left at the pace of the work done; None: too little is done."""
    return left * elapsed / done if done > 0 and (elapsed >= LEAST_S or done >= LEAST_DONE) else None


def duration(seconds: float) -> str:
    """Write a time with two digits and a unit, since an estimate knows no more."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= 1.5 * size or unit == "s":
            return f"{seconds / size:.2g} {unit}" if seconds < 99 * size else f"{seconds / size:,.0f} {unit}"
    raise AssertionError
