"""Make a legend that explains every mark in the picture, and no other marks."""

import math
import textwrap
from collections.abc import Iterable
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..statistics.axes import BYTES, Axis
from ..statistics.bounds import BITS, HEURISTIC
from ..statistics.chance import ONE_OF_N, above
from ..statistics.frontier import decodable
from ..statistics.seeds import APART, apart, settled
from . import draw
from .draw import CHANCE, FORBIDDEN, FULL, FULL_VIEW, bound_lines, reach
from .labels import knob_names
from .page import Handles
from .style import INK, PALE, by_family, crowded, family_colours, family_markers, looks, mixed, one_family
from .ticks import in_bytes

HOW_TO_READ = "how to read it"
EXTRA = "points of your own"
# Our own marks, in black; matplotlib draws them beside their texts.
FRONTIER = {"color": PALE, "linewidth": 3.2}
HOLLOW = {"color": INK, "linestyle": "none", "marker": "o", "markerfacecolor": "white"}
READS = HOLLOW | {"linestyle": ":", "markersize": 4, "markerfacecolor": mixed(INK, draw.PALE)}
SEEDS = {"color": INK, "marker": "o", "markersize": 3.6, "linewidth": 0.6}
DASH = {"color": INK, "linestyle": "none", "marker": "_", "markersize": 9}
FLAG = {"color": INK, "linestyle": "none", "marker": ">", "markersize": 3}
CROSS = {"color": INK, "linestyle": "none", "marker": "x", "markersize": 5, "markeredgewidth": 1.6}
PALE_CROSS = CROSS | {"markeredgewidth": 0.8, "alpha": 0.45}


def bold(points: pd.DataFrame) -> dict[str, str]:
    """Return legend texts that are headings -> their colours."""
    families = {} if crowded(points) else family_colours(points)
    if one_family(points):
        families = dict.fromkeys(families, INK)
    return families | {HOW_TO_READ: INK, EXTRA: INK}


def series_handles(points: pd.DataFrame, letters: int) -> Handles:
    """Return an entry a series under its family, with its knobs in brackets; in a crowd an entry a family.

    letters: letters in a line, here and below.
    """
    if crowded(points):
        return _families(points)
    style, names = looks(points), knob_names(points)
    drawn_full = set(points.loc[decodable(points), "series"])
    handles: Handles = []
    in_order = points.sort_values(["family", "mixer", "series"], key=by_family)
    for family, group in in_order.groupby("family", sort=False):
        handles.append(heading(str(family)))
        for name in group["series"].unique():
            look, knobs = style[name], "/".join(names[name])
            text = f"{name} ({knobs})" if knobs else name
            handles.append(
                Line2D(
                    [], [], color=look.colour, linewidth=0.9, marker=look.marker, markersize=5.5,
                    markerfacecolor=look.colour if name in drawn_full else "white",
                    label=textwrap.fill(text, letters),
                )
            )  # fmt: skip
    return handles


def mark_handles(points: pd.DataFrame, axis: Axis, letters: int) -> Handles:
    """Return the entries of the marks that occur in these points."""
    finished = points.loc[points["diverged"] < points["seeds"]]
    resident = axis.column == "state_resident"
    dumbbells = resident and bool((finished["state_touched"] != finished["state_resident"]).any())
    at_an_edge = finished["lr_edge"] != ""
    at_another = (points["diverged_in_grid"] > 0) & (points["diverged"] == 0)
    better = "none faster and better" if axis.more else "none smaller and better"
    entries = [
        (points["on_frontier"].any(), FRONTIER, f"frontier: {better}"),
        (dumbbells, READS, "what one decode step reads"),
        ((finished["coverage"] < FULL_VIEW).any(), DASH, "answers within the window"),
        (at_an_edge.any(), FLAG, "best lr is the last of its grid (<\u00a0lowest, >\u00a0highest)"),
        ((points["diverged"] > 0).any(), CROSS, "seeds diverged (of how many)"),
        (at_another.any(), PALE_CROSS, "diverged at another lr"),
    ]
    marks = _of_marks(entries, letters)
    if any(points["frontier_low"].notna()):
        text = textwrap.fill("95 % of frontiers, seeds drawn again", letters)
        marks.insert(1, Patch(facecolor=INK, alpha=0.08, linewidth=0, label=text))
    return marks + common_handles(finished, letters)


def common_handles(points: pd.DataFrame, letters: int) -> Handles:
    """Return the legend entries for what `draw.mark` and `draw.chance` draw in any picture."""
    hollow = {"not causal or not decodable": ~decodable(points), "no better than chance": _at_chance(points)}
    reasons = [reason for reason, which in hollow.items() if any(which)]
    guesses = points["guess"] if "guess" in points else pd.Series([ONE_OF_N])
    entries = [
        (bool(reasons), HOLLOW, ", ".join(reasons)),
        (not all(settled(points)), SEEDS, f"each seed, where they differ by > {APART:g}"),
        (any(points["chance"].notna()), CHANCE, "; ".join(guesses.fillna(ONE_OF_N).unique())),
    ]
    return _of_marks(entries, letters)


def _of_marks(rows: Iterable[tuple[bool, dict[str, Any], str]], letters: int) -> Handles:
    """Return the entry of each mark that is here."""
    return [Line2D([], [], label=textwrap.fill(text, letters), **mark) for here, mark, text in rows if here]


def _at_chance(points: pd.DataFrame) -> pd.Series:
    """Return whether the mean is at chance, or any seed of a point whose seeds are drawn separately."""
    lowest = [min(apart(w), default=mean) for w, mean in points[["seed_accuracies", "accuracy"]].to_numpy()]
    return ~above(points.assign(accuracy=lowest))


def bound_handles(curves: list[pd.DataFrame], axis: Axis, left: float, letters: int) -> Handles:
    """Return entries of the bounds that `draw.bounds` shows right of `left`, and words on the others."""
    if not curves:
        return []
    ends = {label: max(reach(curve, label, axis) for curve in curves) for label in bound_lines(axis)}
    shown = [label for label, end in ends.items() if end > left]
    handles: Handles = []
    for label in shown:
        line = bound_lines(axis)[label]
        text = textwrap.fill("outer-product memory (a heuristic)" if label == HEURISTIC else label, letters)
        if label == BITS[axis.bits[0]]:
            edge = {"edgecolor": line["color"], "linewidth": line["linewidth"]}
            handles.append(Patch(label=text, facecolor=FORBIDDEN, **edge))
        else:
            handles.append(Line2D([], [], label=text, **line))
    beyond = [bits for bits in axis.bits if BITS[bits] not in shown]
    if beyond:
        handles.append(heading(textwrap.fill(_beyond(beyond, ends, axis), letters)))
    return handles


def _beyond(bits: list[int], ends: dict[str, float], axis: Axis) -> str:
    """Return words on where the bounds lie that are left of the picture."""
    at = [ends[BITS[count]] for count in bits]
    if axis.ticks == BYTES:
        return f"no model scores {FULL} below {in_bytes(math.ceil(at[0]))} (left of the picture)"
    places, sizes = " / ".join(f"{x:.2g}" if x < 100 else f"{x:,.0f}" for x in at), " / ".join(map(str, bits))
    return f"no model scores {FULL} below {places} scalars of {sizes} bits (left of the picture)"


def extra_handles(extra: pd.DataFrame, letters: int) -> Handles:
    """Return an entry for each name of the points that are no records."""
    return [
        Line2D(
            [], [], linestyle="none", marker=marker, markersize=7, color=colour, markeredgecolor="white",
            markeredgewidth=0.4, label=textwrap.fill(name, letters),
        )
        for name, (marker, colour) in draw.extra_looks(extra).items()
    ]  # fmt: skip


def heading(text: str) -> Line2D:
    return Line2D([], [], linestyle="none", label=text)


def _families(points: pd.DataFrame) -> Handles:
    colours, markers = family_colours(points), family_markers(points)
    counts = points.sort_values("family", key=by_family).groupby("family", sort=False)["series"].nunique()
    return [
        Line2D(
            [], [], linestyle="none", color=colours[family], marker=markers[family], markersize=5.5,
            label=f"{family} ({count})",
        )
        for family, count in zip(counts.index.astype(str), counts, strict=True)
    ]  # fmt: skip
