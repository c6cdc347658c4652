"""Read a user's own points for the picture of python -m analysis.pareto: --points FILE.csv.

The first line names the columns, in any order; text after a # is a comment.

    name        what it is: an entry of the legend; points of one name share a star
    accuracy    0 to 1, of what the picture shows: its y axis names the split and the slices
    low, high   the ends of its interval, where it has one; both columns may be absent
    and what --axis draws against: state_resident (the default: scalars per sequence, all layers),
    state_touched, state_paper, bytes_fp32, bytes_bf16, parameters, decode_tokens_per_second, operations or
    wall_seconds

The points stand beside the records and take no part in the frontier, the table and the CSV.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from zoo.common.checks import unknown

from ..records import written
from ..statistics.axes import AXES
from .style import OTHER_COLOURS, STARS

INTERVAL = ("low", "high")
MOST_NAMES = len(STARS) * (1 + len(OTHER_COLOURS))  # different stars


def read(path: Path, axis: str) -> pd.DataFrame:
    """Return one row a point: name, the column of the axis, accuracy, low, high (NaN without an interval).

    axis: a key of `AXES`.  ValueError, with one line for each mistake in the file.
    """
    x = AXES[axis].column
    table = written.read(path, ("name", x, "accuracy"), " and low, high where there is an interval")
    known = ["name", x, "accuracy", *INTERVAL]
    wrong = [f"{path}: {unknown('column', name, known)}" for name in table if name not in known]
    if len(set(INTERVAL) & set(table)) == 1:
        wrong.append(f"{path} has one of low and high: an interval needs both.")
    rows = table.to_dict("records")
    wrong += [f"{path}, point {i}: {line}." for i, row in enumerate(rows, 1) for line in _mistakes(row, x)]
    if len(names := set(table["name"])) > MOST_NAMES:
        wrong.append(f"{path} has {len(names)} names, and {MOST_NAMES} stars can be told apart: name fewer.")
    if wrong:
        raise ValueError("\n".join(wrong))
    numbers = table.reindex(columns=[x, "accuracy", *INTERVAL]).replace("", None).astype(float)
    return numbers.assign(name=table["name"])


def _mistakes(row: Mapping[str, str], x: str) -> Iterator[str]:
    """Yield what is wrong with the fields of a point."""
    interval = [name for name in INTERVAL if row.get(name)]
    values = {name: written.number(row[name]) for name in (x, "accuracy", *interval)}
    if not row["name"]:
        yield "the name is empty"
    if len(interval) == 1:
        yield f"{interval[0]} stands alone: an interval needs low and high"
    if not 0 < values[x] < math.inf:
        yield f"{x} (={row[x]}) must be a number above 0"
    for name in ("accuracy", *interval):
        if not 0 <= values[name] <= 1:
            yield f"{name} (={row[name]}) must lie between 0 and 1 (per cent: divide by 100)"
    if len(interval) == 2 and not values["low"] <= values["accuracy"] <= values["high"]:
        yield f"accuracy (={row['accuracy']}) must lie between low and high"
