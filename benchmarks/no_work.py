"""Cells without work, for the benchmarks of all that lies around a training: a grid, outcomes, records."""

from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from zoo.config.cell import Cell
from zoo.config.paths import CONF
from zoo.instantiate import task_of
from zoo.launch import process_pool
from zoo.launch.grouping import Group
from zoo.launch.run_cell import record
from zoo.results.environment import machine
from zoo.results.outcome import Outcome, Progress, Score
from zoo.state import StateSize

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
    nothing = StateSize(paper=None, resident=0, touched=0)
    return Outcome(
        status="ok",
        diverged_step=None,
        diverged_lr=None,
        steps=0,
        total_steps=0,
        epochs=0,
        early_stopped=False,
        scores={},
        groups={},
        coverage=None,
        state_seq_len=64,
        state_model=nothing,
        state_mixer=nothing,
        layers=[],
        parameters=0,
        parameters_without_embedding=0,
        causal=True,
        exact_decode=True,
        wall_seconds=0.0,
        examples_per_second=None,
        decode_tokens_per_second=None,
        operations=0.0,
        peak_memory_bytes=0,
        kernels={},
        step_form=None,
    )


def idle(group: Group, pipe: Connection, here: dict[str, Any]) -> None:
    """In the place of `zoo.launch.process_pool._work`: all that a worker does, but for the training."""
    import zoo.training.train

    zoo.training.train.train = untrained
    work(group, pipe, here)


def scores(cell: Cell) -> dict[str, dict[str, Score]]:
    """One for every slice that a record of this cell has."""
    task, score = task_of(cell), Score(0.5, 0.5, 0.5, 1.0, 1000, 100)
    return {split: {s.name: score for s in task.segments(split)} for split in ("valid", "test")}


class Records:
    """What the cells would leave; made once for each point, because that takes a while."""

    def __init__(self) -> None:
        self._points: dict[str, dict[str, Any]] = {}

    def of(self, cell: Cell) -> dict[str, Any]:
        if cell.point not in self._points:
            outcome = replace(untrained(cell, cell.folder), scores=scores(cell))
            self._points[cell.point] = record(cell, outcome) | machine()
        own = {"run_id": cell.run_id, "overrides": list(cell.overrides)}
        return self._points[cell.point] | own | {key: cell.config[key] for key in ("seed", "lr")}
