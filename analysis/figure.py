"""A whole picture: panels, axes with units, a legend, and a caption that says how the numbers were made."""

import io
import math
import textwrap

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from analysis import draw, labels, legend
from analysis.points import slices_in_words
from analysis.seeds import BOOTSTRAP, RANGE
from analysis.style import CALM, GREY, bytes_axis, looks, state_axis

STATE_IN_WORDS = {
    "resident": "Resident state",
    "paper": "State as published figures count it",
    "touched": "State read by one decode step",
}
SPLIT_IN_WORDS = {"valid": "Validation", "test": "Test"}
WIDTH, WIDE = 7.6, 11.5  # inches
LINE = 0.16  # inches, one line of the caption


def one_panel(points: pd.DataFrame, slices: list[str], *, state: str = "resident") -> Figure:
    """Accuracy against state for one row a point, as `analysis.points.points` returns them."""
    with matplotlib.rc_context(CALM):
        figure = _figure(WIDTH, 4.6)
        ax = figure.subplots()
        _panel(ax, points, points, state)
        bytes_axis(ax)
        ax.set_ylabel(_y_label(points, slices))
        ax.set_xlabel(_x_label(points, state))
        _finish(figure, points, state)
        labels.place(ax, _drawn(points, state), looks(points), f"state_{state}")
    return figure


def small_multiples(by_slice: dict[str, pd.DataFrame], *, state: str = "resident") -> Figure:
    """One panel a slice, all with the same axes, colours and markers."""
    everything = pd.concat(list(by_slice.values()), ignore_index=True)
    rows, columns = _grid(len(by_slice))
    with matplotlib.rc_context(CALM):
        figure = _figure(WIDTH if columns < 3 else WIDE, max(4.4, 0.9 + 2.3 * rows))
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for ax, (name, points) in zip(grid, by_slice.items(), strict=False):
            _panel(ax, points, everything, state)
            ax.set_title(slices_in_words([name]), fontsize=8.5 if columns < 4 else 7)
        for ax in grid[len(by_slice) :]:
            ax.remove()
        for ax in grid[len(by_slice) - columns : len(by_slice)]:
            ax.tick_params(labelbottom=True)
        split = SPLIT_IN_WORDS[everything["split"].iloc[0]]
        figure.supylabel(f"{split} accuracy, one slice a panel", fontsize=8.5)
        _finish(figure, everything, state, x_label=_x_label(everything, state))
    return figure


def png(figure: Figure) -> bytes:
    """The figure as PNG, without a date or a version in it: the same figure, the same bytes."""
    return _bytes(figure, "png", {"Software": None})


def pdf(figure: Figure) -> bytes:
    """The figure as PDF, fonts embedded, without a date or a version in it."""
    return _bytes(figure, "pdf", {"CreationDate": None, "Producer": None, "Creator": None})


def caption(points: pd.DataFrame) -> str:
    """How the numbers were made, in sentences."""
    about = f"Task {points['task'].iloc[0]}, {points['n_layers'].iloc[0]} layers."
    seeds = _span(points["seeds"].tolist())
    hows = [how for how in (BOOTSTRAP, RANGE) if how in set(points["interval"])]
    mean = f"Mean of {seeds} seeds with {' or '.join(hows)} over seeds." if hows else "One seed: no interval."
    grid = _span(points["lrs"].tolist())
    tuned = f"Learning rate: the best of {grid} by mean validation accuracy over seeds and slices."
    tuning = "One learning rate each, not tuned." if all(points["single_lr"]) else tuned
    zero = " A diverged seed counts as 0." if any(points["diverged_in_grid"]) else ""
    return f"{about} {mean} {tuning}{zero}"


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine())


def _grid(panels: int) -> tuple[int, int]:
    """Rows and columns, up to four, near a square and with few empty places."""
    columns = min((min(4, math.ceil(math.sqrt(panels))), 3, 4), key=lambda count: -panels % count)
    return math.ceil(panels / columns), columns


def _panel(ax: Axes, points: pd.DataFrame, everything: pd.DataFrame, state: str) -> None:
    """`everything` sets the axis and the markers, so that panels agree."""
    x = f"state_{state}"
    draw.panel(ax, _drawn(points, state), looks(everything), x)
    shown = [x, "state_touched"] if state == "resident" else [x]
    seen = everything[shown].to_numpy(float)
    seen = seen[seen >= 1] if (seen >= 1).any() else seen * 0 + 1
    state_axis(ax, float(seen.min()), float(seen.max()))


def _drawn(points: pd.DataFrame, state: str) -> pd.DataFrame:
    """Points with a state on this axis; a state of 0 stands at 1, where a log axis can show it."""
    x = f"state_{state}"
    known = points.loc[points[x].notna()]
    return known.assign(**{x: known[x].clip(lower=1)})


def _x_label(points: pd.DataFrame, state: str) -> str:
    tokens = points["state_seq_len"].iloc[0]
    return f"{STATE_IN_WORDS[state]}, the most in {tokens} tokens (scalars per sequence, all layers)"


def _y_label(points: pd.DataFrame, slices: list[str]) -> str:
    what, _, which = slices_in_words(slices).partition(": ")
    first = f"{SPLIT_IN_WORDS[points['split'].iloc[0]]} accuracy, {what}"
    return "\n".join([first, *textwrap.wrap(which, 64)])


def _finish(figure: Figure, points: pd.DataFrame, state: str, x_label: str = "") -> None:
    """Legend at the right; common x label and caption in a strip at the bottom; then the layout stands."""
    legend_inches = legend.add(figure, points, state)
    text = textwrap.wrap(caption(points), int(18 * figure.get_figwidth()))
    below = LINE * len(text) + 0.08
    figure.set_figheight(max(figure.get_figheight(), legend_inches + below + LINE))
    inch = 1 / figure.get_figheight()
    strip = below * inch
    figure.text(0.012, 0.06 * inch, "\n".join(text), fontsize=7, color=GREY, va="bottom")
    if x_label:
        figure.text(0.38, strip + 0.02 * inch, x_label, fontsize=8.5, va="bottom", ha="center")
        strip += 0.24 * inch
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=(0, strip, 1, 1 - strip)))
    figure.draw_without_rendering()


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _bytes(figure: Figure, form: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    with matplotlib.rc_context(CALM):
        figure.savefig(buffer, format=form, metadata=metadata)
    return buffer.getvalue()
