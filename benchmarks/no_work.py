"""Cells without work, for the benchmarks of all that lies around a training: a grid, outcomes, records."""

from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from zoo.config.cell import Cell
from zoo.config.paths import CONF
from zoo.instantiate import task_of
from zoo.launch import process_pool
from zoo.launch.grouping import Group
from zoo.launch.run_cell import record
from zoo.results.environment import machine
from zoo.results.outcome import Progress, Score
from zoo.results.record import Outcome

MIXERS = sorted(path.stem for path in (CONF / "mixer").glob("*.yaml"))[:10]
WIDTHS = (32, 64, 128, 256)
RATES = [round(10 ** (-4 + i / 10), 6) for i in range(25)]
work = process_pool._work


def grid(cells: int) -> list[str]:
    """Words for the command line: 1,000 cells for every seed."""
    seeds = max(1, cells // (len(MIXERS) * len(WIDTHS) * len(RATES)))
    axes = {"mixer": MIXERS, "d_model": WIDTHS, "lr": RATES}
    return [f"{key}={','.join(map(str, values))}" for key, values in axes.items()] + [f"seed=range({seeds})"]


def untrained(cell: Cell, folder: Path, report: Callable[[Progress], None] | None = None) -> Outcome:
    """In the place of `zoo.training.train.train`."""
    nothing = {"paper": None, "resident": 0, "touched": 0, "aux_ints": 0}
    found = {
        "status": "ok",
        "steps": 0,
        "diverged_step": None,
        "slices": slices(cell),
        "groups": [],
        "causal": True,
        "exact_decode": True,
        "parameters": 0,
        **{f"{what}_{key}": size for what in ("state", "state_mixer") for key, size in nothing.items()},
        "state_seq_len": 64,
        "wall_seconds": 0.0,
        "examples_per_second": None,
        "decode_tokens_per_second": None,
        "operations": 0.0,
        "peak_memory_bytes": 0,
    }
    return cast(Outcome, found)


def slices(cell: Cell) -> list[dict[str, Any]]:
    """What a record of this cell has."""
    task, score = task_of(cell), asdict(Score(0.5, 0.5, 0.5, 1.0, 1000, 100))
    return [
        {"split": split, "slice": segment.slice, "coverage": 1.0} | score
        for split in ("valid", "test")
        for segment in task.segments(split)
    ]


def idle(group: Group, pipe: Connection, here: dict[str, Any]) -> None:
    """In the place of `zoo.launch.process_pool._work`: all that a worker does, but for the training."""
    import zoo.training.train

    zoo.training.train.train = untrained
    work(group, pipe, here)


class Records:
    """What the cells would leave; made once for each point, because that takes a while."""

    def __init__(self) -> None:
        self._points: dict[str, dict[str, Any]] = {}

    def of(self, cell: Cell) -> dict[str, Any]:
        if cell.point not in self._points:
            self._points[cell.point] = record(cell, untrained(cell, cell.folder)) | machine()
        own = {"run_id": cell.run_id, "overrides": list(cell.overrides)}
        return self._points[cell.point] | own | {key: cell.config[key] for key in ("seed", "lr")}
