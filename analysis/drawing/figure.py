"""Draw pictures of accuracy against a quantity: the content of each panel, and the labels of its axes."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..records.cells import slices_in_words
from ..statistics.axes import AXES
from ..statistics.seeds import BOOTSTRAP, RANGE, top
from . import draw, labels, legend, page
from .page import Handles
from .style import INK, SCREEN, Style, by_family, crowded, looks, rc, small
from .ticks import bytes_on_top, scale

SPLIT_IN_WORDS = {"valid": "Validation", "test": "Test"}
WIDTHS = {1: 1.0, 2: 1.5, 3: 1.8, 4: 2.1}  # width of a page by its columns, in widths of one panel
NO_BREAK = "\u00a0"
MARGIN = 1.45  # factor of room on both sides of the x axis
FOR_POINTS = 2 / 3  # least share of the x axis for the points, if a bound needs room on the left
MOST_PANELS = 12  # most panels, one a slice or load, on a readable page
ALONE_COLUMNS = {"screen": 8, "paper": 6, "column": 3}  # columns of panels with one series each


@dataclass(frozen=True)
class Panel:
    """A panel.  points: with `on_frontier` for this axis.  alone: its only series; others are pale dots.

    bound: from `analysis.statistics.bounds.curves` on a wide grid of states; None: no bound is drawn.
    whole: let the axis begin at the end of the bound, even if that is far left of the points.  extra: from
    `analysis.drawing.own_points`."""

    points: pd.DataFrame
    axis: str = "resident"
    title: str = ""
    alone: str | None = None
    bound: pd.DataFrame | None = None
    whole: bool = False
    extra: pd.DataFrame | None = None


def one_each(points: pd.DataFrame, slices: list[str], *, axis: str, style: Style = SCREEN) -> Figure:
    """Draw one panel a series, for many series: the other series are pale dots in it."""
    series = points.drop_duplicates("series").sort_values(["family", "mixer", "series"], key=by_family)
    made = [Panel(points, axis, name, alone=name) for name in series["series"]]
    return panels(made, slices, style=style)


def panels(
    panels: Sequence[Panel], slices: Sequence[str] = (), *, style: Style = SCREEN, y_label: str = ""
) -> Figure:
    """Draw a page of panels with one legend for all; panels with the same axis share limits and markers.

    slices: the slices over which accuracies are means, for label and caption; none if titles name them.
    """
    everything = pd.concat([panel.points for panel in panels], ignore_index=True)
    each = any(panel.alone for panel in panels)
    rows, columns = page.grid(len(panels), _most_columns(style, len(panels), each))
    with matplotlib.rc_context(rc(style)):
        width, height = _size(style, rows, columns, each)
        figure = page.new(width, height)
        one_axis = len({panel.axis for panel in panels}) == 1
        axes = figure.subplots(rows, columns, sharex=one_axis, sharey=True, squeeze=False).ravel()
        for ax, panel in zip(axes, panels, strict=False):
            _panel(ax, panel, [p for p in panels if p.axis == panel.axis], width / columns)
            _title(ax, panel, everything, style, width / columns)
        page.clear(axes, len(panels), columns)
        if len(panels) == 1 and panels[0].axis == "resident" and style is SCREEN:
            bytes_on_top(axes[0], width)
        handles = _marks(panels, axes[0], style.letters)
        if not each:
            series = legend.series_handles(everything, style.letters)
            extra = [panel.extra for panel in panels if panel.extra is not None]
            stars = legend.extra_handles(extra[0], style.letters) if extra else []
            added = [legend.heading(legend.EXTRA), *stars] if extra else []
            handles = [*series, *added, legend.heading(legend.HOW_TO_READ), *handles]
        page.finish(
            figure, handles, caption(everything, slices), style, below=True if each else None,
            bold=legend.bold(everything), **_axis_labels(axes, panels, slices, y_label, columns, width),
        )  # fmt: skip
        for ax, panel in zip(axes, panels if len(panels) <= 2 else [], strict=False):
            _direct_labels(ax, panel, everything)
    return figure


def caption(points: pd.DataFrame, slices: Sequence[str] = (), *, ranges: bool = True) -> str:
    """Return sentences on how the numbers were made.  ranges: the picture shows the spread of seeds."""
    over = f" Accuracy: {slices_in_words(list(slices))}." if len(slices) > 1 else ""
    seeds = span(points["seeds"].tolist())
    hows = [how for how in (BOOTSTRAP, RANGE) if how in set(points["interval"])]
    spread = f" with {' or '.join(hows)} over seeds" if ranges else ""
    mean = f"Mean of {seeds} seeds{spread}." if hows else "One seed: no interval."
    zero = " A diverged seed counts as 0." if any(points["diverged_in_grid"]) else ""
    return f"{subject(points)}{over} {mean} {tuned(points)}{zero}"


def subject(points: pd.DataFrame) -> str:
    """Return a sentence on the task and the depth of the model."""
    tasks, layers = sorted(points["task"].unique()), span(points["n_layers"].tolist())
    named = " and ".join(filter(None, (", ".join(tasks[:-1]), tasks[-1])))
    return f"Task{'s' * (len(tasks) > 1)} {named}, {layers} layer{'s' * (layers != '1')}."


def tuned(points: pd.DataFrame) -> str:
    """Return a sentence on how the learning rate was chosen."""
    if all(points["single_lr"]):
        return "One learning rate each, not tuned."
    lrs = span(points["lrs"].tolist())
    return f"Learning rate: the best of {lrs} by mean validation accuracy over seeds and slices."


def _panel(ax: Axes, panel: Panel, alike: Sequence[Panel], inches: float) -> None:
    """Draw one panel; the panels in `alike`, with the same axis, share its limits and the markers."""
    axis = AXES[panel.axis]
    everything = pd.concat([other.points for other in alike], ignore_index=True)
    draw.panel(ax, _drawn(panel), looks(everything), axis, panel.alone)
    low, high = _limits(everything, alike)
    scale(ax, axis, min([low, *_room(alike, low, high)]), high, inches)
    if panel.bound is not None:
        draw.bounds(ax, panel.bound, axis)
    if panel.extra is not None:
        draw.extra(ax, panel.extra, draw.extra_looks(panel.extra), axis.column)


def _room(panels: Sequence[Panel], low: float, high: float) -> list[float]:
    """Return where the axis may begin: an octave below a bound, if points then keep FOR_POINTS of it."""
    axis, most = AXES[panels[0].axis], low / (high / low) ** (1 / FOR_POINTS - 1)
    curves = [panel.bound for panel in panels if panel.bound is not None]
    ends = [draw.reach(curve, label, axis) for curve in curves for label in draw.bound_lines(axis)]
    far = 0.0 if any(panel.whole for panel in panels) else most
    return [end / 2 for end in ends if end / 2 > far]


def _marks(panels: Sequence[Panel], ax: Axes, letters: int) -> Handles:
    """Return the legend of the marks and bounds in the panels that share the first panel's axis."""
    axis = AXES[panels[0].axis]
    alike = [panel for panel in panels if panel.axis == panels[0].axis]
    curves = [panel.bound for panel in alike if panel.bound is not None]
    everything = pd.concat([panel.points for panel in alike], ignore_index=True)
    marks = legend.mark_handles(everything, axis, letters)
    return marks + legend.bound_handles(curves, axis, ax.get_xlim()[0], letters)


def _drawn(panel: Panel) -> pd.DataFrame:
    """Return the points with a number on this axis; a state of 0 becomes 1, to be shown on a log axis."""
    x = AXES[panel.axis].column
    known = panel.points.loc[panel.points[x].notna()]
    return known.assign(**{x: known[x].clip(lower=1)}) if x.startswith("state") else known


def _limits(points: pd.DataFrame, alike: Sequence[Panel]) -> tuple[float, float]:
    axis = alike[0].axis
    x = AXES[axis].column
    columns = [points[name] for name in ([x, "state_touched"] if axis == "resident" else [x])]
    columns += [panel.extra[x] for panel in alike if panel.extra is not None]
    positive = np.concatenate([column.to_numpy(float) for column in columns])
    positive = positive[positive > 0]
    low, high = (float(positive.min()), float(positive.max())) if len(positive) else (1.0, 1.0)
    return low / MARGIN, high * MARGIN


def _title(ax: Axes, panel: Panel, everything: pd.DataFrame, style: Style, inches: float) -> None:
    keys, equals, values = panel.title.partition("= ")
    together = equals + values if "mean of" in keys else (equals + values).replace(" ", NO_BREAK)
    text = textwrap.fill(keys + together, max(12, int(inches * 118 / style.small)))
    colour = looks(everything)[panel.alone].colour if panel.alone is not None else INK
    ax.set_title(text, fontsize=style.small, color=colour, pad=3)


def _axis_labels(
    axes: np.ndarray, panels: Sequence[Panel], slices: Sequence[str], y_label: str, columns: int, width: float
) -> dict[str, str]:
    """Label each axis; if more than two panels have the same labels, return these for the whole page."""
    counts = sorted({int(n) for panel in panels for n in panel.points["state_seq_len"]})
    tokens = ", ".join(map(str, counts[:-1])) + " or " * (len(counts) > 1) + str(counts[-1])
    words = y_label or slices_in_words(list(slices)).partition(": ")[0]
    y_label = f"{SPLIT_IN_WORDS[panels[0].points['split'].iloc[0]]} accuracy, {words}"
    if len(panels) > 2 and len({panel.axis for panel in panels}) == 1:
        return {"x_label": AXES[panels[0].axis].label(tokens), "y_label": y_label}
    for ax, panel in zip(axes, panels, strict=False):
        if ax in axes[::columns]:
            ax.set_ylabel(y_label)
        ax.set_xlabel(textwrap.fill(AXES[panel.axis].label(tokens), int(width / columns * 100 / small())))
    return {}


def _direct_labels(ax: Axes, panel: Panel, everything: pd.DataFrame) -> None:
    known = _drawn(panel)
    tops = [top(row) for row in known.to_dict("records")]
    known = known.assign(accuracy=tops)
    write = labels.place_names if crowded(everything) else labels.place
    write(ax, known, looks(everything), AXES[panel.axis].column)


def _most_columns(style: Style, panels: int, each: bool) -> int:
    if each:
        return ALONE_COLUMNS[style.name]
    narrow = 1 if panels < 3 else 2
    return narrow if style.width < 4 else 4


def _size(style: Style, rows: int, columns: int, each: bool) -> tuple[float, float]:
    """Return the size of the panels in inches."""
    if each:
        width = 10.5 if style is SCREEN else style.width
        return width, 0.5 + rows * 0.95 * width / columns
    width = style.width * (WIDTHS[columns] if style is SCREEN else 1)
    alone = rows == 1 and columns <= 2
    return width, style.height if alone else 0.6 + rows * min(style.height, 0.75 * width / columns)


def span(counts: list[int]) -> str:
    """Return "3", or "3 to 5" if the counts differ."""
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"
