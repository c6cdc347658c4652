"""Points of one's own in the picture of python -m analysis.pareto: --points FILE.csv.

The first line names the columns, in any order; lines that begin with # say nothing.

    name        what it is: an entry of the legend; points of one name share a star
    accuracy    0 to 1, of what the picture shows: its y axis names the split and the slices
    low, high   the ends of its interval, where it has one; both columns may be absent
    and what --axis draws against: state_resident (the default: scalars per sequence, all layers),
    state_touched, state_paper, bytes_fp32, bytes_bf16, parameters, decode_tokens_per_second, operations or
    wall_seconds

The points stand beside the records and take no part in the frontier, the table and the CSV.
"""

import csv
import difflib
import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ..statistics.axes import AXES
from .style import OTHER_COLOURS, SPARE_MARKERS

INTERVAL = ("low", "high")
MOST_NAMES = len(SPARE_MARKERS) * (1 + len(OTHER_COLOURS))  # that stars tell apart
MOST_BYTES = 1 << 20


class Mistakes(ValueError):
    """lines: what is wrong in a file, one line each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def read(path: Path, axis: str) -> pd.DataFrame:
    """One row a point: name, the column of the axis, accuracy, low, high (NaN without an interval).

    axis: a key of `AXES`.  Raises Mistakes with one line for each mistake that the file has.
    """
    x = AXES[axis].column
    rows = list(_rows(path))
    wrong = _columns(path, rows[0][1] if rows else [], x, axis)
    if wrong:
        raise Mistakes(wrong)
    head = rows[0][1]
    points, wrong = [], []
    for number, fields in rows[1:]:
        try:
            points.append(_point(head, fields, x))
        except ValueError as error:
            wrong.append(f"{path}, line {number}: {error}.")
    if not wrong and not points:
        wrong = [f"{path} has no point: add a line below {','.join(head)}."]
    if len(names := {point["name"] for point in points}) > MOST_NAMES:
        wrong.append(f"{path} has {len(names)} names, and {MOST_NAMES} stars can be told apart: name fewer.")
    if wrong:
        raise Mistakes(wrong)
    return pd.DataFrame(points)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, its fields) but for comments and empty lines."""
    if not path.is_file():
        raise Mistakes([f"There is no file {path}: --points wants a CSV (python -m analysis.pareto --help)."])
    if path.stat().st_size > MOST_BYTES:
        raise Mistakes([f"{path} has more than {MOST_BYTES} bytes: that is no list of points for a picture."])
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, line in enumerate(file, start=1):
                if line.strip() and not line.startswith("#"):
                    yield number, [field.strip() for field in next(csv.reader([line]))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise Mistakes([f"{path} is no CSV in UTF-8 ({error})."]) from None


def _columns(path: Path, head: list[str], x: str, axis: str) -> list[str]:
    """Say what is wrong with the names of the columns."""
    wanted = ["name", x, "accuracy"]
    known = [*wanted, *INTERVAL]
    given = ",".join(head)
    twice = sorted({name for name in head if head.count(name) > 1})
    wrong = [f"{path} has the column {name!r} twice." for name in twice]
    for name in head:
        if name not in known:
            (near,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            wrong.append(f"{path} has a column {name!r}: the nearest that is read is {near!r}.")
    wrong += [
        f"{path} lacks the column {name!r}, which --axis {axis} needs; it has {given or 'none'}."
        for name in wanted
        if name not in head
    ]
    if len(set(INTERVAL) & set(head)) == 1:
        wrong.append(f"{path} has one of low and high: an interval needs both.")
    return wrong


def _point(head: list[str], fields: list[str], x: str) -> dict[str, str | float]:
    if len(fields) != len(head):
        raise ValueError(f"{len(fields)} fields where the first line has {len(head)} (a comma needs quotes)")
    row = dict(zip(head, fields, strict=True))
    if not row["name"]:
        raise ValueError("the name is empty")
    interval = [name for name in INTERVAL if row.get(name)]
    if len(interval) == 1:
        raise ValueError(f"{interval[0]} stands alone: an interval needs low and high")
    values = {name: _number(name, row[name]) for name in (x, "accuracy", *interval)}
    if not values[x] > 0:
        raise ValueError(f"{x} (={row[x]}) must be above 0")
    for name in ("accuracy", *interval):
        if not 0 <= values[name] <= 1:
            raise ValueError(f"{name} (={row[name]}) must lie between 0 and 1 (per cent: divide by 100)")
    if interval and not values["low"] <= values["accuracy"] <= values["high"]:
        raise ValueError(f"accuracy (={row['accuracy']}) must lie between low and high")
    return {"name": row["name"], "low": math.nan, "high": math.nan} | values


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} (={text!r}) is no number") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} (={text}) must be finite")
    return value
