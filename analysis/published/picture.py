"""Published points and ours in one picture: on the same axes where settings agree, else side by side."""

import textwrap
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import axes, page
from analysis.draw import lines
from analysis.style import INK, Look, Style, looks, marker_area, small

DASHES = ((0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))  # one a source of published points
ROOM = 1.35  # beside the points of an axis, a factor


@dataclass(frozen=True)
class Panel:
    """title, what stands below the axis, and what it shows: published points, ours, or both."""

    title: str
    label: str
    published: pd.DataFrame | None = None
    ours: pd.DataFrame | None = None

    @property
    def shown(self) -> list[pd.DataFrame]:
        return [frame for frame in (self.published, self.ours) if frame is not None]


def dressed(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """The published points of mixers that ours has, with our series and family."""
    about = ours.drop_duplicates("mixer")[["mixer", "series", "family"]]
    return published.merge(about, on="mixer")


def draw(panels: list[Panel], ours: pd.DataFrame, axis: axes.Axis, caption: str, style: Style) -> Figure:
    """One panel beside another, up to four in a row; `axis.column` is x in every frame."""
    rows, columns = page.grid(len(panels), most=4)
    width = style.width * {1: 1.0, 2: 1.3}.get(columns, 1.8)
    figure = page.new(width, 0.55 + rows * min(0.75 * style.height, 0.85 * width / columns))
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    style_of = looks(ours)
    for i, (ax, panel) in enumerate(zip(grid.ravel(), panels, strict=False)):
        if panel.published is not None:
            for dash, (_, run) in zip(DASHES, panel.published.groupby("source"), strict=False):
                _published(ax, run, style_of, axis.column, dash)
        if panel.ours is not None:
            _ours(ax, panel.ours, style_of, axis.column)
        _axis(ax, panel, axis, width / columns, first=i % columns == 0)
    for ax in grid.ravel()[len(panels) :]:
        ax.remove()
    page.finish(figure, _handles(style_of, panels), caption, style)
    return figure


def _published(ax: Axes, rows: pd.DataFrame, style_of: dict[str, Look], x: str, dash: tuple) -> None:
    """Hollow, joined by the dashes of their source; a point of no known setting stands alone."""
    for name, line in lines(rows, x):
        ax.plot(line[x], line["accuracy"], color=style_of[name].colour, linewidth=0.9, alpha=0.6, ls=dash)
    for row in rows.to_dict("records"):
        look = style_of[row["series"]]
        ax.scatter(
            row[x], row["accuracy"], s=marker_area() * look.area, marker=look.marker, facecolor="white",
            edgecolor=look.colour, linewidth=1.0, zorder=3.5, clip_on=False,
        )  # fmt: skip


def _ours(ax: Axes, rows: pd.DataFrame, style_of: dict[str, Look], x: str) -> None:
    """Filled, with their interval over seeds."""
    known = rows.loc[rows[x].notna()]
    for name, line in lines(known, x):
        ax.plot(line[x], line["accuracy"], color=style_of[name].colour, linewidth=0.9, alpha=0.6)
    for row in known.to_dict("records"):
        look = style_of[row["series"]]
        if not np.isnan(row["low"]):
            ax.plot([row[x]] * 2, [row["low"], row["high"]], color=look.colour, linewidth=1)
        ax.scatter(
            row[x], row["accuracy"], s=marker_area() * look.area, marker=look.marker, facecolor=look.colour,
            edgecolor="white", linewidth=0.6, zorder=4, clip_on=False,
        )  # fmt: skip


def _axis(ax: Axes, panel: Panel, axis: axes.Axis, inches: float, *, first: bool) -> None:
    shown = pd.concat([frame[axis.column] for frame in panel.shown]).clip(lower=1)
    axes.scale(ax, axis, shown.min() / ROOM, shown.max() * ROOM, inches)
    ax.set_ylim(-0.03, 1.06)
    ax.set_title(panel.title)
    ax.set_xlabel("\n".join(textwrap.wrap(panel.label, int(inches * 100 / small()))))
    if first:
        ax.set_ylabel("Test accuracy")


def _handles(style_of: dict[str, Look], panels: list[Panel]) -> page.Handles:
    shown = set(pd.concat([frame["series"] for panel in panels for frame in panel.shown]))
    handles: page.Handles = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle="none", label=name)
        for name, look in style_of.items()
        if name in shown
    ]
    if any(panel.ours is not None for panel in panels):
        handles.append(Line2D([], [], color=INK, marker="o", linewidth=0.9, label="ours"))
    printed = [panel.published for panel in panels if panel.published is not None]
    sources = pd.concat(printed).groupby("source")["figure"].first().items() if printed else ()
    hollow = {"color": INK, "marker": "o", "markerfacecolor": "white", "linewidth": 0.9}
    for dash, (source, figure) in zip(DASHES, sources, strict=False):
        text = "\n".join(textwrap.wrap(f"published: {source}, {figure}", 34))
        handles.append(Line2D([], [], **hollow, linestyle=dash, label=text))
    return handles
