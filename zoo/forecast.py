"""The plan of a sweep in tables: its points, what they cost, the jobs that they would form."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import RenderableType
from rich.table import Table

from zoo import results
from zoo.cell import Cell
from zoo.cost import ROUGH, Clock, Cost, cost
from zoo.model import build_model, build_task
from zoo.state import StateSize
from zoo.sweep import count

KINDS = ("cpu", "gpu")
MOST_ROWS = 100  # more points than these are shown by mixer
SOURCES = {"point": "", "mixer": " ~", "others": " ~~", "rough": " ?"}
SOURCE_NOTE = (
    "times: from the point's earlier cells in the results folder; ~ from its mixer's, ~~ from other mixers', "
    "by operations; ? from none: "
    + ", ".join(f"{kind} {1000 * ROUGH[kind][0]:g} ms a step + {ROUGH[kind][1]:.0e} op/s" for kind in KINDS)
)


@dataclass(frozen=True)
class Point:
    """Cells that differ in seed and lr alone: one model."""

    cells: tuple[Cell, ...]
    done: int
    settings: str
    state: StateSize
    parameters: int
    cost: Cost
    seconds: dict[str, float]
    sources: dict[str, str]

    @property
    def mixer(self) -> str:
        return self.cells[0].mixer

    @property
    def left(self) -> int:
        return len(self.cells) - self.done


def forecast(
    cells: Sequence[Cell], settings: Mapping[str, str], launcher: Mapping[str, Any]
) -> Iterator[RenderableType]:
    """What to print, in order.  settings: run id -> the words that tell its point from the others."""
    points = _points(cells, settings)
    left = sum(point.left for point in points)
    yield f"{len(cells)} cells: {len(cells) - left} done already, {left} to run; {len(points)} points"
    yield by_point(points) if len(points) <= MOST_ROWS else by_mixer(points)
    yield _total(points)
    yield SOURCE_NOTE
    yield jobs(launcher, [cell for point in points for cell in point.cells], left)


def _points(cells: Sequence[Cell], settings: Mapping[str, str]) -> list[Point]:
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.point].append(cell)
    clocks = {folder: Clock(folder) for folder in {cell.folder.parent for cell in cells}}
    return [
        _point(group, settings[group[0].run_id], clocks[group[0].folder.parent]) for group in groups.values()
    ]


def _point(cells: list[Cell], settings: str, clock: Clock) -> Point:
    cell = cells[0]
    with torch.device("meta"):
        model = build_model(cell)
    task = build_task(cell.config)
    asked = cost(cell, model, task)
    times = {kind: clock.seconds(cell, asked, kind) for kind in KINDS}
    return Point(
        cells=tuple(cells),
        done=sum(results.is_done(cell.folder) for cell in cells),
        settings=settings,
        state=model.state_size(max(segment.seq_len for segment in task.segments("test"))),
        parameters=sum(p.numel() for p in model.parameters()),
        cost=asked,
        seconds={kind: seconds for kind, (seconds, _) in times.items()},
        sources={kind: SOURCES[source] for kind, (_, source) in times.items()},
    )


COLUMNS = (
    *("mixer", "settings", "cells", "done", "state", "touched", "paper", "bytes\nbf16", "bytes\nfp32"),
    *("parameters", "operations\na cell", "cpu\na cell", "gpu\na cell"),
)


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in COLUMNS:
        table.add_column(
            column, justify="left" if column in ("mixer", "settings") else "right", overflow="fold"
        )
    return table


def by_point(points: Sequence[Point]) -> Table:
    table = _table("points; state: scalars per sequence, all layers, after the longest test sequence")
    for p in points:
        paper = "-" if p.state.paper is None else f"{p.state.paper:,}"
        times = [duration(p.seconds[kind]) + p.sources[kind] for kind in KINDS]
        sizes = (f"{p.state.resident:,}", f"{p.state.touched:,}", paper)
        in_bytes = (f"{p.state.bytes('bfloat16'):,}", f"{p.state.bytes('float32'):,}")
        row = (*sizes, *in_bytes, f"{p.parameters:,}", f"{p.cost.operations:.1e}", *times)
        table.add_row(p.mixer, p.settings, str(len(p.cells)), str(p.done), *row)
    return table


def by_mixer(points: Sequence[Point]) -> Table:
    """From the smallest to the largest of each mixer's points."""
    table = _table(
        f"{len(points)} points, from smallest to largest; state: all layers, longest test sequence"
    )
    groups: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        groups[point.mixer].append(point)
    for mixer, group in groups.items():
        papers = [p.state.paper for p in group if p.state.paper is not None]
        table.add_row(
            mixer,
            f"{len(group)} points",
            str(sum(len(p.cells) for p in group)),
            str(sum(p.done for p in group)),
            _range([p.state.resident for p in group]),
            _range([p.state.touched for p in group]),
            _range(papers) if papers else "-",
            _range([p.state.bytes("bfloat16") for p in group]),
            _range([p.state.bytes("float32") for p in group]),
            _range([p.parameters for p in group]),
            _range([p.cost.operations for p in group], "{:.1e}".format),
            *(_range([p.seconds[kind] for p in group], duration) for kind in KINDS),
        )
    return table


def _range(values: Sequence[float], shown: Any = "{:,}".format) -> str:
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def _total(points: Sequence[Point]) -> str:
    operations = sum(p.left * p.cost.operations for p in points)
    times = (f"{kind} {duration(sum(p.left * p.seconds[kind] for p in points))}" for kind in KINDS)
    return f"to run, one cell after the other: {operations:.1e} operations; {', '.join(times)}"


def jobs(launcher: Mapping[str, Any], cells: Sequence[Cell], left: int) -> str:
    """What the launcher would make of the cells."""
    n_workers = count(launcher.get("n_workers", 1), cells)
    if "cells_per_job" not in launcher:
        return f"on this machine: {n_workers} at once"
    n_jobs = math.ceil(left / launcher["cells_per_job"])
    return f"{n_jobs} jobs of {launcher['cells_per_job']} cells, {n_workers} at once in each"


def duration(seconds: float) -> str:
    """Two digits and a unit: no more of it is known."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= 1.5 * size or unit == "s":
            return f"{seconds / size:.2g} {unit}" if seconds < 99 * size else f"{seconds / size:,.0f} {unit}"
    raise AssertionError
