"""The points of a picture as a table for the terminal."""

import math

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from analysis.statistics.axes import AXES
from analysis.statistics.chance import MARGIN

HEADS = {
    "resident": "resident state",
    "paper": "paper state",
    "touched": "touched state",
    "throughput": "tokens/s",
}
EDGE = {"low": " < lowest", "high": " > highest", "": ""}  # of its grid


def render(points: pd.DataFrame, *, axis: str = "resident", title: str = "") -> Table:
    """One line a point, as `analysis.statistics.points.points` returns them."""
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("mixer", no_wrap=True)
    table.add_column("settings", no_wrap=True)
    for name in (HEADS.get(axis, axis), "lr", "accuracy", "interval", "seeds", "frontier"):
        table.add_column(name, justify="left" if name == "lr" else "right", no_wrap=True)
    for row in points.to_dict("records"):
        table.add_row(
            *map(escape, _cells(row, AXES[axis].column)), style=None if row["on_frontier"] else "dim"
        )
    return table


def whole(table: Table) -> Console:
    """A console wide enough for the table: a narrow terminal breaks its lines, and nothing is cut away."""
    console = Console()
    wanted = Measurement.get(console, console.options.update(width=1000), table).maximum
    console.width = max(console.width, wanted)
    return console


def _cells(row: dict, x: str) -> list[str]:
    seeds = f"{row['seeds']}" + (f", {row['diverged']} diverged" if row["diverged"] else "")
    apart = "" if row["causal"] else "not causal"
    apart = apart or ("" if row["exact_decode"] else "not decodable")
    apart = apart or ("at chance" if row["accuracy"] < row["chance"] + MARGIN else "")
    return [
        row["series"],
        f"d_model={row['d_model']} {row['knobs']}",
        _number(row[x]),
        f"{row['lr']:.2g}{EDGE[row['lr_edge']]}",
        f"{row['accuracy']:.3f}",
        "-" if math.isnan(row["low"]) else f"{row['low']:.3f}..{row['high']:.3f}",
        seeds,
        apart or _share(row),
    ]


def _share(row: dict) -> str:
    """How often a point is on the frontier when seeds are drawn again; a star where it is as they are."""
    share = "" if math.isnan(row["frontier_share"]) else f"{row['frontier_share']:.2f}"
    return f"{share} *" if row["on_frontier"] else f"{share}  "


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3g}" if value >= 1e9 or value < 10 else f"{value:,.0f}"
