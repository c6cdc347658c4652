"""One panel: accuracy against state.  Every function adds one kind of mark to the axes it is given."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from analysis.frontier import takes_part
from analysis.style import GREY, INK, Look

DIVERGED_AT = -0.045  # where a diverged run is drawn: below zero, so that it is no accuracy
FULL_VIEW = 0.9995  # a coverage above this bounds nothing
SIZE, SMALL = 34, 15  # marker areas in square points
ARROW = 6.5  # points from a marker to the flag beside it
SIDES = {"low": -1, "high": 1, "": 0}
FAR = 2.0**20  # beyond every axis


def panel(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """Everything but axis ticks and labels; x is the column with the state."""
    ax.set_ylim(-0.09 if any(points["diverged_in_grid"]) else -0.03, 1.06)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    finished = points.loc[points["diverged"] < points["seeds"]]
    frontier(ax, points, x)
    for name, line in lines(finished, x):
        ax.plot(line[x], line["accuracy"], color=looks[name].colour, linewidth=0.9, alpha=0.55, zorder=2)
    coverage(ax, finished, looks, x)
    if x == "state_resident":
        touched(ax, finished, looks)
    marks(ax, finished, looks, x)
    edges(ax, finished, x)
    diverged(ax, points, looks, x)


def frontier(ax: Axes, points: pd.DataFrame, x: str) -> None:
    """The best accuracy that the points on the frontier reach with at most this much state."""
    best = points.loc[points["on_frontier"]].sort_values([x, "accuracy"])
    if len(best):
        xs, ys = best[x].tolist(), best["accuracy"].tolist()
        right = [*xs, xs[-1] * FAR], [*ys, ys[-1]]
        ax.plot(*right, drawstyle="steps-post", color=INK, linewidth=3.2, alpha=0.16, zorder=1.5)


def lines(points: pd.DataFrame, x: str) -> list[tuple[str, pd.DataFrame]]:
    """(series, points to connect by growing state): one line a d_model where a series turns another knob at
    fixed d_model, one line over d_model where that is all it turns.
    """
    found = []
    for name, series in points.groupby("series", sort=True):
        turns_a_knob = bool(series["d_model"].duplicated().any())
        groups = [group for _, group in series.groupby("d_model")] if turns_a_knob else [series]
        found += [(str(name), group.sort_values([x, "accuracy"])) for group in groups]
    return found


def marks(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """Mean over seeds with its interval; hollow, and below the others, where outside the frontier."""
    for point, allowed in zip(points.to_dict("records"), takes_part(points), strict=True):
        look, here = looks[point["series"]], (point[x], point["accuracy"])
        if not np.isnan(point["low"]):
            spread = [[max(0.0, here[1] - point["low"])], [max(0.0, point["high"] - here[1])]]
            ax.errorbar(
                *here, yerr=spread, fmt="none", ecolor=look.colour, elinewidth=1, capsize=1.8, zorder=3
            )
        face, edge, width = (look.colour, "white", 0.6) if allowed else ("white", look.colour, 1.2)
        ax.scatter(
            *here, s=SIZE * look.area, marker=look.marker, facecolor=face, edgecolor=edge, linewidth=width,
            zorder=4 if allowed else 3.8, clip_on=False,
        )  # fmt: skip


def touched(ax: Axes, points: pd.DataFrame, looks: dict[str, Look]) -> None:
    """A dumbbell from what is kept to what one decode step reads, where the two differ."""
    for point in points.loc[points["state_touched"] != points["state_resident"]].to_dict("records"):
        look, y = looks[point["series"]], point["accuracy"]
        ends = [point["state_touched"], point["state_resident"]]
        ax.plot(ends, [y, y], color=look.colour, linewidth=0.8, linestyle=":", zorder=2)
        ax.scatter(
            ends[0], y, s=SMALL * look.area, marker=look.marker, facecolor="white", edgecolor=look.colour,
            linewidth=0.8, zorder=3.5,
        )  # fmt: skip


def coverage(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """A dash at the share of answers that a bounded view leaves in sight."""
    for point in points.loc[points["coverage"] < FULL_VIEW].to_dict("records"):
        colour = looks[point["series"]].colour
        ax.scatter(point[x], point["coverage"], s=110, marker="_", color=colour, linewidth=1.4, zorder=2.5)


def edges(ax: Axes, points: pd.DataFrame, x: str) -> None:
    """A small arrowhead on the side where the grid of learning rates ends."""
    for point in points.to_dict("records"):
        side = SIDES[point["lr_edge"]]
        if side:
            beside = ScaledTranslation(side * ARROW / 72, 0, root(ax).dpi_scale_trans)
            ax.scatter(
                point[x], point["accuracy"], s=9, marker=">" if side > 0 else "<", color=INK, linewidth=0,
                transform=ax.transData + beside, zorder=5,
            )  # fmt: skip


def diverged(ax: Axes, points: pd.DataFrame, looks: dict[str, Look], x: str) -> None:
    """A cross below zero: strong where seeds diverged at the lr that is drawn, pale where at another."""
    for point in points.loc[points["diverged_in_grid"] > 0].to_dict("records"):
        here, colour = point["diverged"] > 0, looks[point["series"]].colour
        width, alpha = (1.6, 1.0) if here else (0.8, 0.45)
        spot = (point[x], DIVERGED_AT)
        ax.scatter(*spot, s=26, marker="x", color=colour, linewidth=width, alpha=alpha, zorder=4)
        if here:
            ax.annotate(
                f"{point['diverged']}/{point['seeds']}", spot, xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=6, color=colour,
            )  # fmt: skip


def root(ax: Axes) -> Figure:
    """The figure that axes stand in; raises where they stand in none."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("These axes belong to no figure.")
    return figure
