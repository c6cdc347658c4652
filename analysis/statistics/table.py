"""Print the points of a picture as a table for the terminal."""

import math

import pandas as pd
from rich.markup import escape
from rich.table import Table

from zoo.common.terminal import slim

from .axes import AXES
from .chance import MARGIN, ONE_OF_N, at_chance

HEADS = {
    "resident": "resident\nstate",
    "paper": "paper\nstate",
    "touched": "touched\nstate",
    "throughput": "tokens/s",
}
LEFT = ("mixer", "settings", "lr")
SHARED = ("d_model", "lr", "seeds")  # shown once, below the table, where all lines agree
AT_CHANCE = "at chance"
EDGE = {"low": " < lowest", "high": " > highest", "": ""}  # of the grid of learning rates


def render(points: pd.DataFrame, *, axis: str = "resident", title: str = "") -> Table:
    """Make a table with a line per row of `analysis.statistics.points.points`; below it, what all share."""
    table = slim(escape(title) or None)
    lines = [_cells(row, axis) for row in points.to_dict("records")]
    shared = [name for name in SHARED if len({line[name] for line in lines}) == 1] if len(lines) > 1 else []
    for name in (name for name in lines[0] if name not in shared):
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    for line, leads in zip(lines, points["on_frontier"], strict=True):
        shown = (escape(text) for name, text in line.items() if name not in shared)
        table.add_row(*shown, style=None if leads else "dim")
    notes = ["all with: " + " ".join(f"{name}={lines[0][name]}" for name in shared)] if shared else []
    if any(line["frontier"] == AT_CHANCE for line in lines):
        guess = points["guess"].iloc[0] if "guess" in points else ONE_OF_N
        notes.append(f"{AT_CHANCE}: below {points['chance'].iloc[0]:.3f} + {MARGIN} ({guess})")
    table.caption = "\n".join(notes) or None
    return table


def _cells(row: dict, axis: str) -> dict[str, str]:
    """Return column -> text, for one row."""
    apart = "" if row["causal"] else "not causal"
    apart = apart or ("" if row["exact_decode"] else "not decodable")
    apart = apart or (AT_CHANCE if at_chance(row["accuracy"], row["chance"]) else "")
    return {
        "mixer": row["series"],
        "d_model": str(row["d_model"]),
        "settings": row["knobs"],
        HEADS.get(axis, axis): _number(row[AXES[axis].column]),
        "lr": f"{row['lr']:.2g}{EDGE[row['lr_edge']]}",
        "accuracy": f"{row['accuracy']:.3f}",
        "interval": "-" if math.isnan(row["low"]) else f"{row['low']:.3f}..{row['high']:.3f}",
        "seeds": f"{row['seeds']}" + (f", {row['diverged']} diverged" if row["diverged"] else ""),
        "frontier": apart or _share(row),
    }


def _share(row: dict) -> str:
    """Write how often a point is on the frontier when seeds are drawn again; a star: it is as measured."""
    share = "" if math.isnan(row["frontier_share"]) else f"{row['frontier_share']:.2f}"
    return f"{share} *" if row["on_frontier"] else f"{share}  "


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3g}" if value >= 1e9 or value < 10 else f"{value:,.0f}"
