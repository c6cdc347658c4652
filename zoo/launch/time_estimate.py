"""Estimate a cell's seconds: from earlier cells where there are any, else from its operations."""

from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from zoo.config.cell import Cell
from zoo.evaluation.flops import Cost
from zoo.results import store

LEAST_STEPS = 100  # of an earlier cell that says how fast a step is: a shorter one is start-up
# Without an earlier cell: seconds a step, and operations a second (of a CPU: a thread).  With small models a
# GPU waits for its next kernel most of the time.  Right within a factor of about five.
ROUGH = {"cpu": (0.005, 2e10), "gpu": (0.01, 2e13)}


class Clock:
    """Seconds that a cell will take on a kind of device ("cpu", "gpu").

    From the same point's earlier cells in the results folder (seconds a step); else from this mixer's
    (operations a second); else from any; else from ROUGH.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        reading = store.Reading(folder)
        for _, record in reading if folder.is_dir() else ():
            if record["steps"] >= LEAST_STEPS and record["wall_seconds"] > 0:
                self._records[record["accelerator"]].append(record)
        self._rates: dict[tuple[str, str], float | None] = {}
        self.unread = reading.wrong  # a line on each record that says nothing of speed

    def seconds(self, cell: Cell, work: Cost, kind: str) -> tuple[float, str]:
        """The estimate, and what it is made from: point, mixer, others or rough."""
        records = self._records[kind]
        same = [r["wall_seconds"] / r["steps"] for r in records if r["point"] == cell.point]
        if same:
            return median(same) * work.steps, "point"
        for source, name in (("mixer", cell.mixer), ("others", "")):
            rate = self._rate(kind, name)
            if rate is not None:
                return work.operations / rate, source
        seconds, rate = ROUGH[kind]
        threads = cell.trainer.threads if kind == "cpu" else 1
        return seconds * work.steps + work.operations / (rate * threads), "rough"

    def _rate(self, kind: str, mixer: str, most: int = 5) -> float | None:
        """Operations a second of a mixer's earlier cells (of all, for "")."""
        if (kind, mixer) not in self._rates:
            points = {r["point"]: r for r in self._records[kind] if mixer in ("", r["mixer"])}
            rates = [rate for record in list(points.values())[:most] if (rate := _measured(record))]
            self._rates[kind, mixer] = median(rates) if rates else None
        return self._rates[kind, mixer]


def _measured(record: dict[str, Any]) -> float | None:
    """Return operations a second, as the record counted them; None: it holds no such count."""
    total = record.get("total_steps")
    return record["operations"] * record["steps"] / total / record["wall_seconds"] if total else None
