"""A legend that explains every mark in the picture, and none that is not in it."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw import FULL_VIEW
from analysis.frontier import takes_part
from analysis.labels import knob_names
from analysis.style import INK, PALE, by_family, family_colours, looks

HOW_TO_READ = "how to read it"
# Marks of our own, in black: matplotlib draws them beside their texts.
FRONTIER = {"color": PALE, "linewidth": 3.2}
HOLLOW = {"color": INK, "linestyle": "none", "marker": "o", "markerfacecolor": "white"}
READS = {"color": INK, "linestyle": ":", "marker": "o", "markersize": 3.6, "markerfacecolor": "white"}
DASH = {"color": INK, "linestyle": "none", "marker": "_", "markersize": 9}
FLAG = {"color": INK, "linestyle": "none", "marker": ">", "markersize": 3}
CROSS = {"color": INK, "linestyle": "none", "marker": "x", "markersize": 5, "markeredgewidth": 1.6}
PALE_CROSS = CROSS | {"markeredgewidth": 0.8, "alpha": 0.45}


def add(figure: Figure, points: pd.DataFrame, state: str) -> float:
    """Right of the panels: series by family, then the marks that occur in `points`.  Its height in inches."""
    handles = series_handles(points) + mark_handles(points, state)
    legend = figure.legend(
        handles=handles, loc="outside right upper", fontsize=7.2, handlelength=1.6, labelspacing=0.42
    )
    colours = family_colours(points)
    for text in legend.get_texts():
        if text.get_text() in (*colours, HOW_TO_READ):
            text.set_fontweight("bold")
            text.set_color(colours.get(text.get_text(), INK))
    return legend.get_window_extent().height / figure.dpi


def series_handles(points: pd.DataFrame) -> list[Line2D]:
    """One a series; in brackets what its direct labels give."""
    style, names = looks(points), knob_names(points)
    drawn_full = set(points.loc[takes_part(points), "series"])
    handles: list[Line2D] = []
    for family, group in points.sort_values(["family", "mixer", "series"], key=by_family).groupby(
        "family", sort=False
    ):
        handles.append(_header(str(family)))
        for name in group["series"].unique():
            look, knobs = style[name], "/".join(names[name])
            handles.append(
                Line2D(
                    [], [], color=look.colour, linewidth=0.9, marker=look.marker, markersize=5.5,
                    markerfacecolor=look.colour if name in drawn_full else "white",
                    label=f"{name} ({knobs})" if knobs else name,
                )
            )  # fmt: skip
    return handles


def mark_handles(points: pd.DataFrame, state: str) -> list[Line2D]:
    finished = points.loc[points["diverged"] < points["seeds"]]
    dumbbells = state == "resident" and bool((points["state_touched"] != points["state_resident"]).any())
    at_another = (points["diverged_in_grid"] > 0) & (points["diverged"] == 0)
    entries = [
        (points["on_frontier"].any(), FRONTIER, "frontier: none smaller and better"),
        ((~takes_part(finished)).any(), HOLLOW, "not causal or not decodable:\noutside the frontier"),
        (dumbbells, READS, "what one decode step reads"),
        ((finished["coverage"] < FULL_VIEW).any(), DASH, "answers within the window"),
        ((finished["lr_edge"] != "").any(), FLAG, "best lr is the last of its grid\n(< lowest, > highest)"),
        ((points["diverged"] > 0).any(), CROSS, "seeds diverged (of how many)"),
        (at_another.any(), PALE_CROSS, "diverged at another lr"),
    ]
    return [
        _header(HOW_TO_READ),
        *(Line2D([], [], label=text, **mark) for here, mark, text in entries if here),
    ]


def _header(text: str) -> Line2D:
    return Line2D([], [], linestyle="none", label=text)
