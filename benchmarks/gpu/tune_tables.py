"""What tuning found, as tables: tune.csv and tune.md, a row a kernel; candidates.csv, a row a choice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpu.ahead import FITS, NO_TIME
from benchmarks.gpu.choices import words
from benchmarks.gpu.commands import Place, read_csv, write_csv
from benchmarks.gpu.machine import footer
from benchmarks.gpu.ranking import Timed

GAIN = 0.03  # less is noise, and no reason to change a table
SHOWN = ("op", "kernel", "shape", "dtype", "way", "static", "best", "ratio", "change", "tried", "left_out")
Row = dict[str, str]
Key = Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """fates: number of a choice -> why it was left out, or that it fits.  static: seconds of a call.
    timed: the best few, the fastest first.
    """

    values: Sequence[Any]
    fates: Mapping[int, str]
    static: float | None = None
    timed: Mapping[int, Timed] = field(default_factory=dict)

    @property
    def cut_short(self) -> bool:
        return not self.timed and NO_TIME in self.fates.values()

    def row(self) -> Row:
        best = next(iter(self.timed), None)
        time = None if best is None else self.timed[best]
        return {
            "best": "" if best is None else words(self.values[best]),
            "ratio": "" if time is None else f"{time.ratio:.3f}",
            "change": "" if time is None else "yes" if time.ratio <= 1 - GAIN else "no",
            "static_us": "" if self.static is None else f"{1e6 * self.static:.2f}",
            "best_us": "" if time is None else f"{1e6 * time.seconds:.2f}",
            "tried": str(len(self.values)),
            "left_out": "; ".join(f"{count} {why}" for why, count in _reasons(self.fates).items()),
        }

    def rows(self) -> list[Row]:
        ratios = {number: f"{time.ratio:.3f}" for number, time in self.timed.items()}
        return [
            {"choice": words(value), "fate": self.fates[number], "ratio": ratios.get(number, "")}
            for number, value in enumerate(self.values)
        ]


class Tables:
    """What a run before has written into the folder stays."""

    def __init__(self, place: Place) -> None:
        self.place = place
        place.out.mkdir(parents=True, exist_ok=True)
        self.found, self.choices = (read_csv(place.out / name) for name in ("tune.csv", "candidates.csv"))

    def has(self, key: Key) -> bool:
        return any(_same(row, key) for row in self.found)

    def fate(self, key: Key, value: Any) -> str | None:
        """Of a choice, in a run before."""
        rows = (row for row in self.choices if _same(row, key) and row["choice"] == words(value))
        return next((row["fate"] for row in rows), None)

    def add(self, key: Key, found: Found) -> str:
        """Writes all tables, for what had its time; the row in a line."""
        if found.cut_short:
            return f"no time was left for {' '.join(key.values())}"
        row = {**key, **found.row()}
        self.found.append(row)
        write_csv(self.place.out / "tune.csv", self.found)
        self.note(key, found)
        (self.place.out / "tune.md").write_text(f"{markdown(self.found)}\n\n{footer(self.place, 'tune')}\n")
        best = f"{row['best']} takes {row['ratio']} of its time" if row["best"] else "none timed"
        return f"{row['op']} {row['kernel']} ({row['shape']}, {row['way']}): {row['static']}; {best}"

    def note(self, key: Key, found: Found) -> None:
        """The choices alone."""
        others = [row for row in self.choices if not _same(row, key)]
        self.choices = [*others, *({**key, **row} for row in found.rows())]
        if self.choices:
            write_csv(self.place.out / "candidates.csv", self.choices)


def _same(row: Key, key: Key) -> bool:
    return all(row[name] == value for name, value in key.items())


def _reasons(fates: Mapping[int, str]) -> Counter[str]:
    """Without the numbers in them."""
    return Counter(" ".join(why.split(":")[0].split()[:2]) for why in fates.values() if why != FITS)


def markdown(rows: Sequence[Row]) -> str:
    lines = [f"| {' | '.join(SHOWN)} |", "|---" * len(SHOWN) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row[name] for name in SHOWN)} |" for row in rows)])
