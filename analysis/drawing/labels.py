"""Write beside each marker the values of its knobs, or its name, if there is room."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .draw import ARROW, FULL_VIEW, SIDES, root
from .style import Look, small

AROUND = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, 2), (0, -2))
FAR_AROUND = ((1, -3), (-1, 3), (1, 3), (-1, -3), (1, -5), (-1, 5))
Places = tuple[tuple[int, int], ...]  # how far to the right and up of a marker, in the order of trying
GAP = 5.5  # points from the centre of a marker to its text


def knob_names(points: pd.DataFrame) -> dict[str, list[str]]:
    """Return series -> the numbers that vary in it (d_model, knobs), in the order of its direct labels."""
    varying = {}
    for name, series in points.groupby("series", sort=True):
        values = pd.DataFrame([_values(row) for row in series.to_dict("records")])
        varying[str(name)] = [str(c) for c in values if len(set(values[c])) > 1]
    return varying


def knob_values(points: pd.DataFrame) -> list[str]:
    """Return "64/16" for each point: its values of `knob_names`."""
    names, rows = knob_names(points), points.to_dict("records")
    return ["/".join(_values(row).get(name, "-") for name in names[row["series"]]) for row in rows]


def place(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """Write "64/16" beside each marker that has free room around it, and nothing beside others.

    The figure must have its final layout: room is judged in points on the page.
    """
    _place(ax, points, knob_values(points), looks, x)


def place_names(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """Write the names of the points on the frontier, because the legend of a crowd names only families."""
    texts = [name if on else "" for name, on in zip(points["series"], points["on_frontier"], strict=True)]
    _place(ax, points, texts, looks, x, AROUND + FAR_AROUND)


def _place(
    ax: Axes, points: pd.DataFrame, texts: list[str], looks: dict[str, Look], x: str, around: Places = AROUND
) -> None:
    scale, font = 72 / root(ax).dpi, small() * 0.92
    centres = ax.transData.transform(points[[x, "accuracy"]].to_numpy(float)) * scale
    taken = _marks(ax, points, centres, x, scale)
    area = np.array(ax.bbox.extents) * scale
    for (cx, cy), row, text in zip(centres, points.to_dict("records"), texts, strict=True):
        spot = _free_spot(cx, cy, text, font, taken, area, around) if text else None
        if spot:
            (dx, dy), box = spot
            taken.append(box)
            ax.annotate(
                text, (row[x], row["accuracy"]), xytext=(dx, dy), textcoords="offset points", ha="center",
                va="center", fontsize=font, color=looks[row["series"]].colour, zorder=6,
            )  # fmt: skip


Box = tuple[float, float, float, float]  # left, bottom, right, top


def _values(row: dict) -> dict[str, str]:
    knobs = dict(pair.split("=", 1) for pair in row["knobs"].split())
    return {"d_model": str(row["d_model"])} | knobs


def _box(cx: float, cy: float, width: float, height: float) -> Box:
    return cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2


def _interval_boxes(ax: Axes, points: pd.DataFrame, x: str, scale: float) -> list[Box]:
    known = points.dropna(subset=["low", "high"])
    low = ax.transData.transform(known[[x, "low"]].to_numpy(float)) * scale
    high = ax.transData.transform(known[[x, "high"]].to_numpy(float)) * scale
    return [(a - 2, b, c + 2, d) for (a, b), (c, d) in zip(low, high, strict=True)]


def _marks(ax: Axes, points: pd.DataFrame, centres: np.ndarray, x: str, scale: float) -> list[Box]:
    """Return the boxes that markers, flags, dashes, intervals and dumbbells take, in points."""
    sides = [SIDES[edge] for edge in points["lr_edge"]]
    taken = [_box(cx, cy, 7, 7) for cx, cy in centres]
    taken += [
        _box(cx + side * ARROW, cy, 4, 4) for (cx, cy), side in zip(centres, sides, strict=True) if side
    ]
    covered = points.loc[points["coverage"] < FULL_VIEW, [x, "coverage"]].to_numpy(float)
    if len(covered):
        taken += [_box(cx, cy, 11, 3) for cx, cy in ax.transData.transform(covered) * scale]
    return taken + _interval_boxes(ax, points, x, scale) + _dumbbells(ax, points, x, scale)


def _dumbbells(ax: Axes, points: pd.DataFrame, x: str, scale: float) -> list[Box]:
    if x != "state_resident":
        return []
    apart = points.loc[points["state_touched"] < points[x]]
    reads = ax.transData.transform(apart[["state_touched", "accuracy"]].clip(lower=1e-9).to_numpy(float))
    keeps = ax.transData.transform(apart[[x, "accuracy"]].to_numpy(float))
    return [(a - 3, b - 2, c, d + 2) for (a, b), (c, d) in zip(reads * scale, keeps * scale, strict=True)]


def _free_spot(
    cx: float, cy: float, text: str, font: float, taken: list[Box], area: np.ndarray, around: Places
) -> tuple[tuple[float, float], Box] | None:
    width, height = 0.62 * font * len(text), 1.1 * font
    for right, up in around:
        dx, dy = right * (GAP + width / 2), up * (GAP + height / 4)  # farther rings, where up is 2 and more
        box = _box(cx + dx, cy + dy, width, height)
        inside = box[0] > area[0] and box[1] > area[1] and box[2] < area[2] and box[3] < area[3]
        if inside and not any(_overlap(box, other) for other in taken):
            return (dx, dy), box
    return None


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
