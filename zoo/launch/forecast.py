"""Tabulate the plan of a sweep: its points, their cost, and the jobs that they would form."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from zoo.common.terminal import fitting, slim
from zoo.config.cell import Cell
from zoo.evaluation.flops import Cost, cost
from zoo.launch.grouping import in_words
from zoo.launch.remaining import duration
from zoo.launch.sweep import count
from zoo.mixers.state import StateSize, peak
from zoo.model import outline
from zoo.results import store
from zoo.tasks.build import task_of
from zoo.training.initial_weights import adapted

KINDS = ("cpu", "gpu")
MOST_POINTS = 5  # of earlier cells, whose speeds are looked at
LEAST_STEPS = 100  # of an earlier cell, before it tells how fast a step is: a shorter one is mostly start-up
# Without an earlier cell: seconds per step, and operations per second (on a CPU: per thread).  With small
# models a GPU waits for its next kernel most of the time.  Right within a factor of about five.
ROUGH = {"cpu": (0.005, 2e10), "gpu": (0.01, 2e13)}
MOST_ROWS = 100  # more points than these are shown by mixer
MARKS = {"point": "", "mixer": " ~", "others": " ~~", "rough": " ?"}
SOURCES = {
    "point": "unmarked: from earlier cells of the point in the results folder",
    "mixer": "~ from earlier cells of the mixer, by FLOPs",
    "others": "~~ from earlier cells of other mixers, by FLOPs",
    "rough": "? a guess, nothing in the results folder to go by; right within a factor of about five: "
    + ", ".join(
        f"{kind} {1000 * ROUGH[kind][0]:g} ms a step + {ROUGH[kind][1]:.0e} FLOP/s" for kind in KINDS
    ),
}


@dataclass(frozen=True)
class Point:
    """Cells of one model: they differ in seed and lr only."""

    cells: tuple[Cell, ...]
    done: int
    settings: str
    state: StateSize
    parameters: int
    share: float | None  # of the parameters that train, under a recipe of conf/adaptation
    cost: Cost
    seconds: dict[str, float]
    sources: dict[str, str]

    @property
    def mixer(self) -> str:
        """Return the name of its mixer."""
        return self.cells[0].mixer

    @property
    def left(self) -> int:
        """Return how many of its cells are not done."""
        return len(self.cells) - self.done


class Clock:
    """Estimates the seconds that a cell will take on a kind of device ("cpu", "gpu").

    The estimate comes from earlier cells in the results folder: those of the same point (seconds per step),
    else those of the same mixer (operations per second), else any; and from ROUGH where there are none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        reading = store.Reading(folder)
        for _, record in reading if folder.is_dir() else ():
            if record["steps"] >= LEAST_STEPS and record["wall_seconds"] > 0:
                self._records[record["accelerator"]].append(record)
        self._rate = cache(self._measured_rate)
        self.unread = reading.wrong  # a line on each record that cannot be read

    def seconds(self, cell: Cell, work: Cost, kind: str) -> tuple[float, str]:
        """Return the estimate and its source: point, mixer, others or rough."""
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

    def _measured_rate(self, kind: str, mixer: str) -> float | None:
        """Return operations per second of a mixer's earlier cells (of all cells, for ""); None: unknown."""
        points = {r["point"]: r for r in self._records[kind] if mixer in ("", r["mixer"])}
        rates = [rate for record in list(points.values())[:MOST_POINTS] if (rate := _measured(record))]
        return median(rates) if rates else None


def _measured(record: dict[str, Any]) -> float | None:
    """Return the operations per second of a record; None: the record holds no count of its steps."""
    total = record.get("total_steps")
    return record["operations"] * record["steps"] / total / record["wall_seconds"] if total else None


def forecast(
    cells: Sequence[Cell], settings: Mapping[str, str], launcher: Mapping[str, Any]
) -> Iterator[RenderableType]:
    """Yield what to print, in order.  settings: run id -> the words that set its point apart."""
    clocks = {folder: Clock(folder) for folder in {cell.folder.parent for cell in cells}}
    points = _points(cells, settings, clocks)
    yield _summary(points)
    yield fitting(table(points), SPARE)
    used = {source for p in points for source in p.sources.values()}
    yield from (f"times: {words}" for source, words in SOURCES.items() if source in used)
    for clock in clocks.values():
        if clock.unread:
            unread = _some(len(clock.unread), "record")
            yield f"times: without {unread} that cannot be read, the first: {clock.unread[0]}"
    operations = sum(p.left * p.cost.operations for p in points)
    times = (f"{kind} {duration(sum(p.left * p.seconds[kind] for p in points))}" for kind in KINDS)
    yield f"to run, one cell after the other: {operations:.1e} FLOPs; {', '.join(times)}"
    yield from _populations(launcher, points)
    yield jobs(launcher, points)


def _summary(points: Sequence[Point]) -> str:
    cells, left = sum(len(p.cells) for p in points), sum(p.left for p in points)
    sizes = _range([len(p.cells) for p in points])
    return (
        f"{_some(cells, 'cell')}: {cells - left:,} done, {left:,} to run; {_some(len(points), 'point')}\n"
        f"the cells of a point differ in lr and seed alone: {sizes} a point"
    )


def _some(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _points(cells: Sequence[Cell], settings: Mapping[str, str], clocks: Mapping[Path, Clock]) -> list[Point]:
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.point].append(cell)
    return [_point(g, settings[g[0].run_id], clocks[g[0].folder.parent]) for g in groups.values()]


def _point(cells: list[Cell], settings: str, clock: Clock) -> Point:
    cell = cells[0]
    model, task = outline(cell), task_of(cell)
    work = cost(cell, model)
    times = {kind: clock.seconds(cell, work, kind) for kind in KINDS}
    return Point(
        cells=tuple(cells),
        done=sum(store.is_done(cell.folder) for cell in cells),
        settings=settings,
        state=peak(model.state_size, max(segment.seq_len for segment in task.segments("test"))),
        parameters=sum(p.numel() for p in model.parameters()),
        share=adapted(cell).share if cell.adaptation else None,
        cost=work,
        seconds={kind: seconds for kind, (seconds, _) in times.items()},
        sources={kind: source for kind, (_, source) in times.items()},
    )


def table(points: Sequence[Point]) -> Table:
    """Make the table: a row per point, or per mixer where there are too many; empty columns are left out."""
    groups: dict[Any, list[Point]] = defaultdict(list)
    for i, point in enumerate(points):
        groups[i if len(points) <= MOST_ROWS else point.mixer].append(point)
    columns = _columns(points)
    made = slim(TITLE)
    for name in columns:
        words = name == "mixer, settings"
        made.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for group in groups.values():
        made.add_row(*(text(group) for text in columns.values()))
    return made


TITLE = "state: scalars per sequence, all layers, the most in the longest test sequence"
SPARE = ("published", "parameters", "FLOPs\na cell")  # columns that a narrow terminal leaves out
Text = Callable[[Sequence[Point]], str]


def _columns(points: Sequence[Point]) -> dict[str, Text]:
    """Return heading -> function that writes the column's text for the points of a row."""
    columns: dict[str, Text] = {
        "mixer, settings": lambda ps: (
            f"{ps[0].mixer} {escape(ps[0].settings) if len(ps) == 1 else f'({len(ps)} points)'}"
        ),
        "done": lambda ps: f"{sum(p.done for p in ps)}/{sum(len(p.cells) for p in ps)}",
        "state": lambda ps: _range([p.state.resident for p in ps]),
    }
    if any(p.state.touched != p.state.resident for p in points):
        columns["touched"] = lambda ps: _range([p.state.touched for p in ps])
    if any(p.state.paper is not None for p in points):
        columns["published"] = lambda ps: _range([p.state.paper for p in ps if p.state.paper is not None])
    columns["parameters"] = lambda ps: _range([p.parameters for p in ps])
    if any(p.share is not None for p in points):
        columns["trained"] = lambda ps: _range(
            [1.0 if p.share is None else p.share for p in ps], "{:.2%}".format
        )
    columns["FLOPs\na cell"] = lambda ps: _range([p.cost.operations for p in ps], "{:.1e}".format)
    return columns | {f"{kind}\na cell": partial(_time, kind) for kind in KINDS}


def _time(kind: str, points: Sequence[Point]) -> str:
    sources = {p.sources[kind] for p in points}
    mark = MARKS[sources.pop()] if len(sources) == 1 else ""
    return _range([p.seconds[kind] for p in points], duration) + mark


def _range(values: Sequence[float], shown: Callable[[float], str] = "{:,}".format) -> str:
    if not values:
        return "-"
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def _populations(launcher: Mapping[str, Any], points: Sequence[Point]) -> Iterator[str]:
    """Yield which cells would train as one, where populations are on; for a job array, in the first job."""
    cells = [cell for p in points for cell in p.cells]
    left = [cell for cell in cells if not store.is_done(cell.folder)]
    if not left or all(cell.population == 1 for cell in left):
        return
    each = launcher.get("cells_per_job", len(left))
    words = in_words(left[:each], count(launcher.get("n_workers", 1), cells)) or "populations: none"
    first = "the first job's " if each < len(left) else ""
    yield f"{first}{words}; the times are of cells alone"


def jobs(launcher: Mapping[str, Any], points: Sequence[Point]) -> str:
    """Return the jobs that the launcher would make of the cells that are left, and their time."""
    cells, left = [cell for p in points for cell in p.cells], sum(p.left for p in points)
    kind = cells[0].trainer.accelerator
    seconds = sum(p.left * p.seconds[kind] for p in points)
    n_workers = count(launcher.get("n_workers", 1), cells)
    if "cells_per_job" not in launcher:
        return f"on this machine, {n_workers} at once: about {duration(seconds / n_workers)} ({kind})"
    n_jobs, each = math.ceil(left / launcher["cells_per_job"]), launcher["cells_per_job"]
    at_once = min(n_jobs, launcher.get("n_parallel") or n_jobs)
    return (
        f"{_some(n_jobs, 'job')} of {_some(each, 'cell')}, {n_workers} at once in each; "
        f"if {at_once} run at once: about {duration(seconds / n_workers / max(1, at_once))} ({kind})"
    )
