"""Rows of a tidy table: each holds what was timed, its alternative and its floor."""

import csv
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

from zoo.bench.machine import Floor, Machine


@dataclass(frozen=True, kw_only=True)
class Timed:
    """The times of a form.  times: seconds of each repeat.  units: the number of `Row.unit` in one repeat.
    peak_bytes: memory beyond that of the inputs; for a training step, all memory of its process.
    """

    implementation: str
    times: Sequence[float]
    units: float
    floor: Floor
    loss_gap: float | None = None
    held_by: str = ""
    peak_bytes: float | None = None

    @property
    def seconds(self) -> float:
        """Return the median of the repeats."""
        return median(self.times)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A measurement.  seconds: the median of `repeats`; `fastest`, `slowest`: their extremes.  ratio: the
    alternative's seconds over these, both from one run.  floor_share: floor_seconds over seconds; 1 cannot be
    beaten.  loss_gap: the largest relative distance of a training loss from the alternative's, step by step.
    of_attention: seconds over those of attention at the same sizes and in the same form, in one run.
    """

    what: str
    mixer: str
    sizes: str
    implementation: str
    alternative: str
    seconds: float
    fastest: float
    slowest: float
    repeats: int
    unit: str
    units_per_second: float
    ratio: float
    floor_seconds: float | None
    floor: str
    floor_share: float | None
    loss_gap: float | None
    held_by: str
    peak_bytes: float | None
    device: str
    threads: int
    clock: str
    versions: str
    of_attention: float | None = None


def timed(
    times: Mapping[str, Sequence[float]],
    units: float,
    floor: Callable[[str], Floor],
    peaks: Mapping[str, float] | None = None,
) -> list[Timed]:
    """Return every implementation with its times, its floor and, where they were measured, its peak bytes."""
    held = dict.fromkeys(times) if peaks is None else peaks
    return [
        Timed(implementation=name, times=seconds, units=units, floor=floor(name), peak_bytes=held[name])
        for name, seconds in times.items()
    ]


def compared(
    what: str, mixer: str, sizes: str, unit: str, forms: Sequence[Timed], alternative: str, machine: Machine
) -> list[Row]:
    """Return a row for each timed form, compared with the form named `alternative`."""
    against = next(t for t in forms if t.implementation == alternative).seconds
    return [
        Row(
            what=what,
            mixer=mixer,
            sizes=sizes,
            implementation=t.implementation,
            alternative=alternative,
            seconds=t.seconds,
            fastest=min(t.times),
            slowest=max(t.times),
            repeats=len(t.times),
            unit=unit,
            units_per_second=t.units / t.seconds,
            ratio=against / t.seconds,
            floor_seconds=t.floor.seconds,
            floor=t.floor.made_of,
            floor_share=None if t.floor.seconds is None else t.floor.seconds / t.seconds,
            loss_gap=t.loss_gap,
            held_by=t.held_by,
            peak_bytes=t.peak_bytes,
            device=machine.device,
            threads=machine.threads,
            clock=machine.clock,
            versions=machine.versions,
        )
        for t in forms
    ]


SHOWN = {
    "mixer": "mixer",
    "sizes": "sizes",
    "implementation": "implementation",
    "seconds": "s",
    "units_per_second": "units/s",
    "alternative": "against",
    "ratio": "times as fast",
    "floor_share": "of the floor",
    "of_attention": "of attention's time",
    "loss_gap": "loss gap",
    "held_by": "held by",
    "peak_bytes": "peak MB",
}


def table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and cells of a table for reading; empty columns are left out."""
    texts = [{name: _text(name, value) for name, value in asdict(row).items()} for row in rows]
    columns = [name for name in SHOWN if any(text[name] for text in texts)]
    return [SHOWN[name] for name in columns], [[text[name] for name in columns] for text in texts]


def markdown(rows: Sequence[Row], argv: Sequence[str]) -> str:
    """Return the table with the command, the machine and the floors below it."""
    heads, cells = table(rows)
    first, floors = rows[0], dict.fromkeys(row.floor for row in rows if row.floor)
    threads = "one thread" if first.threads == 1 else f"{first.threads} threads"
    lines = [
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
        *(f"| {' | '.join(line)} |" for line in cells),
        "",
        f"`python -m zoo.bench {shlex.join(argv)}`; {first.device}, {threads}; "
        f"{first.versions}.  Units: {first.unit}.  Seconds are medians, of the {first.clock} clock.",
        *(["Floors: " + "; ".join(floors) + "."] if len(floors) <= 4 else []),
    ]
    return "\n".join(lines)


def write(rows: Sequence[Row], folder: Path, argv: Sequence[str]) -> None:
    """Write the rows to WHAT.csv as a tidy table, and to WHAT.md for reading."""
    folder.mkdir(parents=True, exist_ok=True)
    what = rows[0].what
    with (folder / f"{what}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (folder / f"{what}.md").write_text(markdown(rows, argv) + "\n")


def _text(name: str, value: str | float | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    value = value / 1e6 if name == "peak_bytes" else value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
