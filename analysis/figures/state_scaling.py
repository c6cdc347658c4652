"""Show how many pairs a state recalls: capacity at 90 per cent against state, with a power law per mixer."""

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..drawing import page
from ..drawing.figure import caption
from ..drawing.legend import heading
from ..drawing.style import GREY, Look, Style, looks, marker_area
from ..drawing.ticks import fixed, scale
from ..records import cells
from ..statistics import bounds, capacity, scored
from ..statistics.axes import AXES
from ..statistics.points import in_words
from .gallery import Picture, Study

BOUND, HEURISTIC = bounds.LABELS[0], bounds.LABELS[-1]
DASHES: dict[str, Any] = {BOUND: "-", HEURISTIC: "-."}
ARROWS = {"above": (0, 21), "below": (0, -21)}  # points, for arrows at capacities outside the loads
ROOM = 1.5  # factor of room on both sides of the points
STATES = np.geomspace(0.1, 2.0**24, 900)  # scalars at which bounds are computed
Limits = dict[str, list[tuple[float, float]]]  # bound -> [(state, pairs)]


def figure(study: Study, style: Style) -> Picture:
    """Draw the capacities; a load may be a slice or a cell of its own, see `analysis.statistics.capacity`."""
    if (axis := cells.load_axis(study.table)) != cells.PAIRS:
        raise ValueError(f"state_scaling counts pairs, and these rows have {axis}: loads draws that.")
    about = scored.means(study.table)
    capacities = capacity.capacities(study.table).merge(
        about.drop_duplicates("series")[["series", "mixer", "family"]], on="series"
    )
    fits, of_the_mixer = capacity.fits(study.table), capacity.fits(study.table, of_state="state_mixer_paper")
    limits = _limits(study.table)
    sentences = [
        f"Capacity: the pairs at which accuracy falls below {capacity.RECALL:g}, read off between the loads; "
        f"an arrow: above the largest load or below the smallest. {caption(about)}",
        *_words(fits, capacities),
    ]
    loads = sorted(set(study.table[axis].tolist()))
    drawn = _draw(capacities, fits, limits, loads, sentences[0], style)
    return Picture(drawn, capacities, sentences, {"fits": fits, "fits_of_the_mixer": of_the_mixer})


def _limits(table: pd.DataFrame) -> Limits:
    """Return bound -> [(state, pairs)]: the smallest state at which the bound allows that many pairs."""
    limits: Limits = {BOUND: [], HEURISTIC: []}
    table = bounds.of_mqar(table)
    vocabularies = table[bounds.VOCAB_SIZE].unique().tolist() if bounds.VOCAB_SIZE in table else []
    for name in cells.slices(table, "test") if len(vocabularies) == 1 else []:
        curves = bounds.curves([name], vocabularies[0], STATES)
        pairs = table.loc[table["slice"] == name, cells.PAIRS].tolist()[0]
        for label, known in limits.items():
            curve = curves.loc[(curves["bound"] == label) & (curves["accuracy"] >= capacity.RECALL)]
            if len(curve):
                known.append((min(curve["state"]), pairs))
    return limits


def _draw(
    capacities: pd.DataFrame,
    fits: pd.DataFrame,
    limits: Limits,
    loads: list[float],
    caption: str,
    style: Style,
) -> Figure:
    figure = page.new(style.width, style.height)
    ax = figure.subplots()
    style_of = looks(capacities)
    for row in capacities.to_dict("records"):
        _mark(ax, row, style_of[row["series"]], loads)
    exponents = {row["series"]: row for row in fits.to_dict("records") if np.isfinite(row["exponent"])}
    for series, fit in exponents.items():
        of = capacities.loc[(capacities["series"] == series) & (capacities["censored"] == ""), "state"]
        states = np.array([min(of), max(of)])
        pairs = fit["factor"] * states ** fit["exponent"]
        ax.plot(states, pairs, color=style_of[series].colour, linewidth=1)
    for label, known in limits.items():
        states, pairs = np.array(known).reshape(-1, 2).T
        ax.plot(states, pairs, color=GREY, linestyle=DASHES[label], linewidth=0.9)
    states = [min(capacities["state"]), *(state for state, _ in limits[HEURISTIC])]
    least = min(states) / ROOM
    scale(ax, AXES["resident"], least, max(capacities["state"]) * ROOM, style.width)
    _pairs(ax, loads)
    label = "Resident state at that many pairs (scalars per sequence, all layers)"
    ax.set_xlabel(textwrap.fill(label, int(style.width * 100 / style.font)))
    ax.set_ylabel(f"Pairs recalled at {capacity.RECALL:.0%}")
    page.finish(figure, _handles(style_of, exponents, limits, least), caption, style)
    return figure


def _mark(ax: Axes, row: dict, look: Look, loads: list[float]) -> None:
    """Draw a point at its capacity, with an arrow if the capacity lies outside the loads."""
    censored = row["censored"]
    y = {"": row["pairs"], "above": max(loads), "below": min(loads)}[censored]
    ax.scatter(
        row["state"], y, s=marker_area() * look.area, marker=look.marker, facecolor=look.colour,
        edgecolor="white", linewidth=0.6, zorder=3, clip_on=False,
    )  # fmt: skip
    if censored:
        ax.annotate(
            "", (row["state"], y), xytext=ARROWS[censored], textcoords="offset points",
            arrowprops={"arrowstyle": "<-", "color": look.colour, "linewidth": 0.9, "shrinkB": 4},
        )  # fmt: skip
    elif not np.isnan(row["low"]):
        low, high = max(row["low"], min(loads)), min(row["high"], max(loads))
        ax.vlines(row["state"], low, high, color=look.colour, linewidth=1)


def _pairs(ax: Axes, loads: list[float]) -> None:
    ax.set_yscale("log", base=2)
    ax.set_ylim(min(loads) / 1.6, max(loads) * 1.6)
    fixed(ax.yaxis, loads, "{:g}".format)


def _handles(
    style_of: dict[str, Look], exponents: dict[str, dict], limits: Limits, least: float
) -> page.Handles:
    handles: page.Handles = [
        Line2D(
            [], [], color=look.colour, marker=look.marker, linestyle="-" if name in exponents else "none",
            label=f"{name}: {_exponent(exponents[name])}" if name in exponents else name,
        )
        for name, look in style_of.items()
    ]  # fmt: skip
    for label, known in limits.items():
        last = max((state for state, _ in known), default=np.nan)
        if last < least:
            handles.append(heading(f"{label}:\nat most {last:.2g} scalars, left of the picture"))
        elif known:
            handles.append(Line2D([], [], color=GREY, linestyle=DASHES[label], linewidth=0.9, label=label))
    return handles


def _exponent(fit: dict) -> str:
    interval = "" if np.isnan(fit["low"]) else f" ({fit['low']:.2f} to {fit['high']:.2f})"
    return f"state^{fit['exponent']:.2f}{interval}"


def _words(fits: pd.DataFrame, capacities: pd.DataFrame) -> list[str]:
    lines = [
        f"{row['series']}: pairs grow as {_exponent(row)}, from {row['states']} states."
        for row in fits.to_dict("records")
        if np.isfinite(row["exponent"])
    ]
    without = [row["series"] for row in fits.to_dict("records") if not np.isfinite(row["exponent"])]
    if without:
        few = f"fewer than {capacity.STATES} states, over an octave, with a capacity within the loads"
        lines.append(f"No exponent, for {few}: {', '.join(without)}.")
    above = [in_words(row) for row in capacities.to_dict("records") if row["censored"] == "above"]
    return [*lines, f"Above the largest load: {', '.join(above)}."] if above else lines
