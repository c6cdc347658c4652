"""Draw accuracy against bits: a panel per slice, a line per series, a dot per form, and the bound."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..drawing import page
from ..drawing.style import INK, PALE, Look, Style, looks, rc, small
from ..records.cells import slices, slices_in_words
from ..statistics import bounds
from . import frontier

BOUND = "no model (docs/bounds.md)"


def picture(points: pd.DataFrame, style: Style) -> Figure:
    """Draw the best accuracy that each series reaches with at most so many bits, and all forms as dots."""
    names, look = slices(points.assign(split="test"), "test"), looks(points)
    colours = {series: matplotlib.colormaps["tab20"](i) for i, series in enumerate(look)}
    with matplotlib.rc_context(rc(style)):
        figure, axes, _ = page.multiples(len(names), style, most=2)
        bounded = False
        for ax, name in zip(axes, names, strict=True):
            bounded |= _panel(ax, points.loc[points["slice"] == name], look, colours)
            ax.set_title(slices_in_words([name]), fontsize=small())
        handles: page.Handles = [
            Line2D([], [], color=colours[name], marker=each.marker, label=name) for name, each in look.items()
        ]
        handles += [Line2D([], [], color=INK, linestyle=":", label=BOUND)] * bounded
        seeds = " or ".join(map(str, sorted(set(points["seeds"].tolist()))))
        caption = (
            f"Mean over {seeds} seeds, against the bits of one sequence's state: codes, scales, zero points, "
            "residuals and integers, the most at any token. Dots: every form that was asked for; lines: the "
            "best with at most this many bits." + " Dotted: the upper bound for this many bits." * bounded
        )
        x_label = "Bits of state per sequence"
        page.finish(figure, handles, caption, style, x_label=x_label, y_label="Accuracy")
    return figure


def _panel(ax: Axes, points: pd.DataFrame, look: dict[str, Look], colours: dict) -> bool:
    """Draw one slice, and return whether it has a bound."""
    for name, rows in points.sort_values("bits").groupby("series"):
        colour, marker = colours[name], look[str(name)].marker
        bits, accuracy = rows["bits"].to_numpy(float), rows["accuracy"].to_numpy(float)
        ax.plot(bits, accuracy, marker, color=colour, alpha=0.35, markersize=3)
        ax.plot(bits, np.maximum.accumulate(accuracy), color=colour, drawstyle="steps-post")
    least, most = points["bits"].min().item(), points["bits"].max().item()
    load = bounds.load_of(points["slice"].iloc[0], points["vocab_size"].iloc[0])
    if load:
        curve = bounds.most(frontier.GRID, load)
        ax.plot(frontier.GRID, curve, ":", color=INK)
        ax.fill_between(frontier.GRID, curve, 1.05, color=PALE, alpha=0.5, linewidth=0)
        least = min(least, frontier.GRID[int((curve >= 0.5).argmax())].item())
    ax.set_xscale("log")
    ax.set_xlim(least / 1.5, most * 1.5)
    ticks = [16**i for i in range(8) if least / 1.5 <= 16**i <= most * 1.5]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    ax.set_ylim(-0.02, 1.05)
    return load is not None
