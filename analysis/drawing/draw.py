"""Draw one panel, accuracy against a quantity.  Each function adds one kind of mark to the given axes."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.transforms import ScaledTranslation, Transform
from numpy.typing import NDArray

from ..statistics.axes import Axis
from ..statistics.bounds import BITS, HEURISTIC
from ..statistics.chance import at_chance
from ..statistics.seeds import apart, settled, top
from .style import BACKGROUND, GREY, INK, OTHER_COLOURS, STARS, Look, crowded, marker_area, mixed, small

Floats = NDArray[np.float64]
DIVERGED_AT = -0.045  # where a diverged run is drawn: below zero, so that it is not taken for an accuracy
FULL_VIEW = 0.9995  # a coverage above this bounds nothing
READ = 0.45  # area of the mark for what is read, relative to the mark for what is kept
PALE = 0.45  # strength of colour for what is no point of ours: published, or what a step reads
STAR = 2.2  # area of a star for a user's own point, relative to the mark of a mean
SEED = 0.5  # area of the mark of a seed, relative to the mark of a mean
ARROW = 6.5  # points from a marker to the flag beside it
SIDES = {"low": -1, "high": 1, "": 0}
FAR = 2.0**20  # a factor that leads beyond every axis
FULL = 0.99  # accuracy from which a bound no longer binds
FORBIDDEN = "#F1EFEA"
BOUND_LINES: tuple[dict[str, Any], ...] = (  # the nominal count of bits, then others
    {"color": GREY, "linewidth": 1.0},
    {"color": GREY, "linewidth": 0.7, "linestyle": "--"},
    {"color": GREY, "linewidth": 0.7, "linestyle": ":"},
)
LINE: dict[str, Any] = {"linewidth": 0.9, "alpha": 0.55}  # joins the sizes of a series
CAPPED: dict[str, Any] = {"linewidth": 1.0, "marker": "_", "markersize": 3.6}  # an interval
CHANCE: dict[str, Any] = {"color": INK, "linewidth": 1.1, "linestyle": (0, (1, 3)), "zorder": 1.2}
HEURISTIC_LINE: dict[str, Any] = {"color": "#B5B5B5", "linewidth": 1.0, "linestyle": "-."}


def panel(
    ax: Axes, points: pd.DataFrame, looks: dict[str, Look], axis: Axis, alone: str | None = None
) -> None:
    """Draw everything but the x axis.  alone: the series that the panel is about; others are pale dots."""
    ax.set_ylim(-0.09 if any(points["diverged_in_grid"]) else -0.03, 1.06)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    x = axis.column
    frontier(ax, points, axis)
    chance(ax, points, x)
    if alone is not None:
        background(ax, points.loc[points["series"] != alone], x)
        points = points.loc[points["series"] == alone]
    finished = points.loc[points["diverged"] < points["seeds"]]
    agreeing = finished.loc[settled(finished)]
    line_of: dict[str, Any] = {"linewidth": 0.5, "alpha": 0.25} if crowded(points) else LINE
    for name, line in lines(agreeing, x):
        ax.plot(line[x], line["accuracy"], color=looks[name].colour, zorder=2, **line_of)
    coverage(ax, finished, looks, x)
    if x == "state_resident":
        touched(ax, agreeing, looks)
    for point in finished.to_dict("records"):
        mark(ax, point, looks[point["series"]], x)
    edges(ax, finished, x)
    diverged(ax, points, looks, x)


def frontier(ax: Axes, points: pd.DataFrame, axis: Axis) -> None:
    """Draw the best accuracy at each cost or less, and its band when seeds are drawn again."""
    band = points.dropna(subset=["frontier_low"]).sort_values([axis.column, "frontier_low"])
    if len(band):
        xs, low, high = (_to_the_end(band, c, axis) for c in (axis.column, "frontier_low", "frontier_high"))
        ax.fill_between(xs, low, high, step=_step(axis), color=INK, alpha=0.08, linewidth=0, zorder=1.4)
    best = points.loc[points["on_frontier"]].sort_values([axis.column, "accuracy"])
    if len(best):
        xs, ys = (_to_the_end(best, c, axis) for c in (axis.column, "accuracy"))
        ax.plot(xs, ys, drawstyle=f"steps-{_step(axis)}", color=INK, linewidth=3.2, alpha=0.16, zorder=1.5)


def _to_the_end(points: pd.DataFrame, column: str, axis: Axis) -> list[float]:
    """Return the values with one more point, where the frontier goes on level beyond every axis."""
    values, far = points[column].tolist(), FAR if column == axis.column else 1.0
    return [values[0] / far, *values] if axis.more else [*values, values[-1] * far]


def _step(axis: Axis) -> Literal["pre", "post"]:
    return "pre" if axis.more else "post"


def bounds(ax: Axes, curves: pd.DataFrame, axis: Axis) -> None:
    """Shade what no model can do with a scalar's nominal bits; draw lines for other bits, up to their ends.

    curves: from `analysis.statistics.bounds.curves`."""
    for label, line in bound_lines(axis).items():
        x, y = bound(curves, label, axis)
        below = y < FULL
        ax.plot(x[below], y[below], zorder=0.6, **line)
        if label == BITS[axis.bits[0]]:
            ax.fill_between(x[below], y[below], 1.0, color=FORBIDDEN, linewidth=0, zorder=0.5)


def bound_lines(axis: Axis) -> dict[str, dict[str, Any]]:
    """Return bound -> the look of its line, for the bounds that belong on this axis."""
    of_bits = dict(zip((BITS[bits] for bits in axis.bits), BOUND_LINES, strict=False))
    return of_bits | {HEURISTIC: HEURISTIC_LINE} if of_bits else {}


def bound(curves: pd.DataFrame, label: str, axis: Axis) -> tuple[Floats, Floats]:
    """Return one curve: rising places on the axis, and the accuracy that is possible at each."""
    curve = curves.loc[curves["bound"] == label].sort_values("state")
    return curve["state"].to_numpy(float) * axis.per_scalar, curve["accuracy"].to_numpy(float)


def reach(curves: pd.DataFrame, label: str, axis: Axis) -> float:
    """Return the place on the axis from which one curve bounds nothing."""
    x, y = bound(curves, label, axis)
    return float(x[np.argmax(y >= FULL)])


def background(ax: Axes, points: pd.DataFrame, x: str) -> None:
    """Draw the points that a panel is not about, as pale dots."""
    finished = points.loc[points["diverged"] < points["seeds"]]
    ax.scatter(
        finished[x], finished["accuracy"], s=0.2 * marker_area(), color=BACKGROUND, linewidth=0, zorder=1.8
    )


def lines(points: pd.DataFrame, x: str) -> list[tuple[str, pd.DataFrame]]:
    """Return (series, points to connect by growing x): points that differ in one number, d_model or a knob.

    A series that varies a knob at each of several d_model has a line for each d_model; a series that varies
    several knobs has no line, because it would say nothing."""
    series_groups = []
    for name, series in points.groupby("series", sort=True):
        turns_a_knob = bool(series["d_model"].duplicated().any())
        groups = [group for _, group in series.groupby("d_model")] if turns_a_knob else [series]
        alike = [group for group in groups if not turns_a_knob or _turned(group) <= 1]
        series_groups += [(str(name), group.sort_values([x, "accuracy"])) for group in alike]
    return series_groups


def _turned(points: pd.DataFrame) -> int:
    """Return how many knobs take two or more values in these points."""
    values = {pair for knobs in points["knobs"] for pair in knobs.split()}
    names = [pair.partition("=")[0] for pair in values]
    return sum(names.count(name) > 1 for name in set(names))


def mark(ax: Axes, point: dict, look: Look, x: str, *, area: float = 1, at: Transform | None = None) -> None:
    """Draw a point like every picture: its mean with the interval over seeds, hollow if the mixer cannot
    decode or the mean is no better than chance.

    If its seeds are far apart, draw each seed, smaller, and no mean.
    at: a transform other than that of the data."""
    at, seeds = at or ax.transData, apart(point["seed_accuracies"])
    ends = [min(seeds), max(seeds)] if seeds else [point["low"], point["high"]]
    if not np.isnan(ends[0]):
        style: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.7} if seeds else CAPPED
        ax.plot([point[x]] * 2, ends, color=look.colour, zorder=3, transform=at, **style)
    decodes = point["causal"] and point["exact_decode"]
    smaller = SEED if seeds else 1.0
    for accuracy in seeds or [point["accuracy"]]:
        full = decodes and not at_chance(accuracy, point["chance"])
        face, edge, width = (look.colour, "white", 0.6) if full else ("white", look.colour, 1.2)
        ax.scatter(
            point[x], accuracy, s=smaller * area * marker_area() * look.area, marker=look.marker,
            facecolor=face, edgecolor=edge, linewidth=width * smaller, zorder=4 if full else 3.8,
            clip_on=False, transform=at,
        )  # fmt: skip


def extra(ax: Axes, points: pd.DataFrame, looks: dict[str, tuple[MarkerStyle, str]], x: str) -> None:
    """Draw the points of `analysis.drawing.own_points` as stars."""
    for point in points.to_dict("records"):
        marker, colour = looks[point["name"]]
        if not np.isnan(point["low"]):
            ax.plot([point[x]] * 2, [point["low"], point["high"]], color=colour, linewidth=1, zorder=4.4)
        ax.scatter(
            point[x], point["accuracy"], s=STAR * marker_area(), marker=marker, facecolor=colour,
            edgecolor="white", linewidth=0.5, zorder=4.5, clip_on=False,
        )  # fmt: skip


def extra_looks(points: pd.DataFrame) -> dict[str, tuple[MarkerStyle, str]]:
    """Return name -> its star and colour."""
    looks = [(marker, colour) for colour in (INK, *OTHER_COLOURS) for marker in STARS]
    return dict(zip(dict.fromkeys(points["name"]), looks, strict=False))


def chance(ax: Axes, points: pd.DataFrame, x: str) -> None:
    """Draw the score of a guess: a level line, or a curve if x determines the score."""
    known = dict(sorted(zip(points[x].tolist(), points["chance"].tolist(), strict=True)))
    values = {value for value in points["chance"] if not np.isnan(value)}
    if len(values) == 1:
        ax.axhline(*values, **CHANCE)
    elif len(values) == len(known):
        ax.plot(list(known), list(known.values()), **CHANCE)


def touched(ax: Axes, points: pd.DataFrame, looks: dict[str, Look]) -> None:
    """Draw a dumbbell from what is kept to what one decode step reads, if the two differ."""
    for point in points.loc[points["state_touched"] != points["state_resident"]].to_dict("records"):
        look, y = looks[point["series"]], top(point)
        ends = [max(1, point["state_touched"]), point["state_resident"]]
        ax.plot(ends, [y, y], color=look.colour, linewidth=0.8, linestyle=":", zorder=2)
        ax.scatter(
            ends[0], y, s=READ * marker_area() * look.area, marker=look.marker, linewidth=0,
            facecolor=mixed(look.colour, PALE), zorder=3.5,
        )  # fmt: skip


def coverage(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """Draw a dash at the share of answers that a bounded view leaves visible."""
    for point in points.loc[points["coverage"] < FULL_VIEW].to_dict("records"):
        colour = looks[point["series"]].colour
        ax.scatter(
            point[x], point["coverage"], s=3.2 * marker_area(), marker="_", color=colour, linewidth=1.4,
            zorder=2.5,
        )  # fmt: skip


def edges(ax: Axes, points: pd.DataFrame, x: str) -> None:
    """Draw a small arrowhead on the side where the grid of learning rates ends."""
    for point in points.to_dict("records"):
        side = SIDES[point["lr_edge"]]
        if side:
            shift = ScaledTranslation(side * ARROW / 72, 0, root(ax).dpi_scale_trans)
            ax.scatter(
                point[x], top(point), s=9, marker=">" if side > 0 else "<", color=INK, linewidth=0,
                transform=ax.transData + shift, zorder=5,
            )  # fmt: skip


def diverged(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """Draw a cross below zero: strong if seeds diverged at the lr that is drawn, pale if at another lr."""
    for point in points.loc[points["diverged_in_grid"] > 0].to_dict("records"):
        here, colour = point["diverged"] > 0, looks[point["series"]].colour
        width, alpha = (1.6, 1.0) if here else (0.8, 0.45)
        spot = (point[x], DIVERGED_AT)
        ax.scatter(*spot, s=26, marker="x", color=colour, linewidth=width, alpha=alpha, zorder=4)
        if here:
            ax.annotate(
                f"{point['diverged']}/{point['seeds']}", spot, xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=small() - 1, color=colour,
            )  # fmt: skip


def root(ax: Axes) -> Figure:
    """Return the figure that the axes belong to.  ValueError: they belong to none."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("These axes belong to no figure.")
    return figure
