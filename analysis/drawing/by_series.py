"""Draw small multiples: a panel a series, and in it a line a setting of the mixer, darker with more state."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..statistics.points import in_words
from ..statistics.seeds import settled, top
from . import ends, labels, page, ticks
from .draw import chance as draw_chance
from .draw import mark
from .legend import common_handles
from .style import Look, Style, by_family, looks, mixed, small

PALEST = 0.45  # strength of a family's colour for its smallest state
MOST_NAMES = 7  # most lines of a panel that have their name at its right
PLACES = 7  # most ticks of an axis
Marks = Callable[[Axes, pd.DataFrame, dict[str, str]], None]


@dataclass(frozen=True)
class Axis:
    """An x axis.  column: of the rows.  label: text below panels.  base: of its log; None: linear from 0."""

    column: str
    label: str
    base: int | None = 2
    text: Callable[[float], str] = "{:g}".format


def draw(
    rows: pd.DataFrame,
    axis: Axis,
    y_label: str,
    caption: str,
    style: Style,
    *,
    handles: page.Handles | None = None,
    marks: Marks | None = None,
    bottom: float = -0.03,
) -> Figure:
    """Draw accuracy against an axis, a panel a series.

    rows: series, mixer, family, d_model, knobs, state_resident, the axis, accuracy, low, high,
    seed_accuracies, causal, exact_decode, chance.  A line joins the rows that share series, d_model and
    knobs, and whose seeds agree.  marks(axes, rows of the series, unit -> its colour) adds more marks to a
    panel; handles explain these marks."""
    rows = rows.assign(unit=[in_words(row) for row in rows.to_dict("records")])
    first = rows.drop_duplicates("series").sort_values(["family", "mixer", "series"], key=by_family)
    figure, axes, columns = page.multiples(len(first), style, most=style.across)
    style_of = looks(rows)
    letters = int(0.72 * figure.get_figwidth() / columns * 122 / small())
    for ax, row in zip(axes, first.to_dict("records"), strict=True):
        series, colour = rows.loc[rows["series"] == row["series"]], style_of[row["series"]].colour
        shade_of = shades(series, colour)
        ax.set_ylim(bottom, 1.06)
        draw_chance(ax, rows, axis.column)
        _lines(ax, series, axis.column, shade_of, colour)
        if marks:
            marks(ax, series, shade_of)
        ax.set_title(_title(series, letters), fontsize=small(), color=colour)
    _scale(axes[0], rows, axis)
    _labels(axes, columns, textwrap.fill(axis.label, letters), y_label)
    page.finish(figure, [*(handles or []), *common_handles(rows, style.letters)], caption, style, below=True)
    return figure


def shades(series: pd.DataFrame, colour: str) -> dict[str, str]:
    """Return unit -> the colour, mixed with more white for a unit with less state; in the order of state."""
    rows = series.sort_values("state_resident", kind="stable").drop_duplicates("unit")
    units, states = rows["unit"].tolist(), rows["state_resident"].tolist()
    sizes = sorted(set(states))
    strengths = np.linspace(PALEST, 1, len(sizes)) if len(sizes) > 1 else np.ones(1)
    shade_of = {size: mixed(colour, float(way)) for size, way in zip(sizes, strengths, strict=True)}
    return {unit: shade_of[size] for unit, size in zip(units, states, strict=True)}


def _lines(ax: Axes, series: pd.DataFrame, x: str, shade_of: dict[str, str], colour: str) -> None:
    short, heights = dict(zip(series["unit"], labels.knob_values(series), strict=True)), {}
    for unit, shade in shade_of.items():
        line = series.loc[series["unit"] == unit].sort_values(x)
        ax.plot(line[x], line["accuracy"].where(settled(line)), color=shade, linewidth=1.1, zorder=2)
        for row in line.to_dict("records"):
            mark(ax, row, Look(shade, "o"), x, area=0.5)
        heights[unit] = top(line.to_dict("records")[-1])
    named = _thinned([unit for unit in shade_of if short[unit]])
    if len(shade_of) > 1 and named:
        texts, ys = [short[unit] for unit in named], [heights[unit] for unit in named]
        ends.write(ax, texts, ys, [colour] * len(named))


def _title(series: pd.DataFrame, letters: int) -> str:
    ((name, names),) = labels.knob_names(series).items()
    knobs = [f"({'/'.join(names)})"] if names else []
    return "\n".join(textwrap.fill(part, letters) for part in (name, *knobs))


def _thinned(names: list[str]) -> list[str]:
    if len(names) <= MOST_NAMES:
        return names
    keep = np.linspace(0, len(names) - 1, MOST_NAMES).round().astype(int)
    return [names[i] for i in keep]


def _scale(ax: Axes, rows: pd.DataFrame, axis: Axis) -> None:
    places = sorted(set(rows[axis.column].tolist()))
    if axis.base is None:
        places = sorted({0, *places})
        room = 0.04 * places[-1] or 1
        ax.set_xlim(0, places[-1] + room)
    else:
        ax.set_xscale("log", base=axis.base)
        room = (places[-1] / places[0]) ** 0.06 if len(places) > 1 else axis.base
        ax.set_xlim(places[0] / room, places[-1] * room)
    ticks.fixed(ax.xaxis, places[:: 1 + (len(places) - 1) // PLACES], axis.text)


def _labels(axes: np.ndarray, columns: int, x: str, y: str) -> None:
    for place, ax in enumerate(axes):
        if place >= len(axes) - columns:
            ax.set_xlabel(x, fontsize=small())
        if place % columns == 0:
            ax.set_ylabel(y)
