"""Show how many pairs a state recalls: capacity at 90 per cent against state, with a power law per mixer."""

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..drawing import page
from ..drawing.figure import caption
from ..drawing.legend import HOLLOW, heading
from ..drawing.style import GREY, Look, Style, looks, marker_area
from ..drawing.ticks import fixed, scale
from ..records import cells
from ..statistics import bounds, capacity, scored
from ..statistics.axes import AXES
from ..statistics.points import in_words
from ..statistics.seeds import APART, settled
from .gallery import Picture, Study

BOUND, HEURISTIC = bounds.LABELS[0], bounds.LABELS[-1]
DASHES: dict[str, Any] = {BOUND: "-", HEURISTIC: "-."}
ARROWS = {"above": (0, 21), "below": (0, -21)}  # points, for arrows at capacities outside the loads
ROOM = 1.5  # factor of room on both sides of the points
STATES = np.geomspace(0.1, 2.0**24, 900)  # scalars at which bounds are computed
COUNTS = {  # column of `zoo.results.load` -> its label
    capacity.RESIDENT: "Resident state at that many pairs (scalars per sequence, all layers)",
    "state_mixer_paper": "State of one mixer, as published figures count it (scalars per sequence)",
}
Limits = dict[str, list[tuple[float, float]]]  # bound -> [(state, pairs)]


@dataclass(frozen=True)
class _Panel:
    """Capacities against one of COUNTS, and a power law for each series."""

    count: str
    capacities: pd.DataFrame
    fits: pd.DataFrame


def figure(study: Study, style: Style) -> Picture:
    """Draw the capacities; a load may be a slice or a cell of its own, see `analysis.statistics.capacity`."""
    table = study.table
    if (axis := cells.load_axis(table)) != cells.PAIRS:
        raise ValueError(f"state_scaling counts pairs, and these rows have {axis}: loads draws that.")
    about = scored.means(table)
    of_units = about.assign(apart=~settled(about)).groupby(capacity.UNIT, as_index=False, dropna=False)
    names = of_units.agg(apart=("apart", "any"), mixer=("mixer", "first"), family=("family", "first"))
    panels = [
        _Panel(of, capacity.capacities(table, of_state=of).merge(names), capacity.fits(table, of_state=of))
        for of in COUNTS
        if any(table[of].notna())
    ]
    sentences = [
        f"Capacity: the pairs at which accuracy falls below {capacity.RECALL:g}, read off between the loads; "
        f"an arrow: above the largest load or below the smallest. {caption(about)}",
        *_words(panels),
    ]
    drawn = _draw(panels, _limits(table), sorted(set(table[axis].tolist())), sentences[0], style)
    rows = panels[0].capacities.assign(**{of.count: of.capacities["state"] for of in panels[1:]})
    fits = {name: of.fits for name, of in zip(("fits", "fits_of_the_mixer"), panels, strict=False)}
    return Picture(drawn, rows, sentences, fits)


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


def _draw(panels: list[_Panel], limits: Limits, loads: list[float], caption: str, style: Style) -> Figure:
    figure = page.new(style.width * (1 if style.below else len(panels)), style.height)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    style_of = looks(panels[0].capacities.assign(family=""))  # lines of one family would have one colour
    axes[0].set_yscale("log", base=2)
    axes[0].set_ylim(min(loads) / 1.6, max(loads) * 1.6)
    fixed(axes[0].yaxis, loads, "{:g}".format)
    for ax, panel in zip(axes, panels, strict=True):
        known = panel.capacities.dropna(subset="state").to_dict("records")
        for row in known:
            _mark(ax, row, style_of[row["series"]], loads)
        _lines(ax, panel, style_of)
        states = [row["state"] for row in known]
        bounded = [state for state, _ in limits[HEURISTIC]] if ax is axes[0] else []
        scale(ax, AXES["resident"], min(states + bounded) / ROOM, max(states) * ROOM, style.width)
        ax.set_xlabel(textwrap.fill(COUNTS[panel.count], int(style.width * 100 / style.font)))
    for label, known in limits.items():
        states, pairs = np.array(known).reshape(-1, 2).T
        axes[0].plot(states, pairs, color=GREY, linestyle=DASHES[label], linewidth=0.9)
    axes[0].set_ylabel(f"Pairs recalled at {capacity.RECALL:.0%}")
    page.finish(figure, _handles(style_of, panels, limits, axes[0].get_xlim()[0]), caption, style)
    return figure


def _lines(ax: Axes, panel: _Panel, style_of: dict[str, Look]) -> None:
    for fit in panel.fits.dropna(subset="exponent").to_dict("records"):
        of = panel.capacities.query("censored == '' and series == @fit['series']")["state"]
        states = np.array([min(of), max(of)])
        pairs = fit["factor"] * states ** fit["exponent"]
        ax.plot(states, pairs, color=style_of[fit["series"]].colour, linewidth=1)


def _mark(ax: Axes, row: dict, look: Look, loads: list[float]) -> None:
    """Draw a point at its capacity, with an arrow if the capacity lies outside the loads."""
    censored = row["censored"]
    y = {"": row["pairs"], "above": max(loads), "below": min(loads)}[censored]
    face, edge = ("white", look.colour) if row["apart"] else (look.colour, "white")
    ax.scatter(
        row["state"], y, s=marker_area() * look.area, marker=look.marker, facecolor=face, edgecolor=edge,
        linewidth=0.6, zorder=3, clip_on=False,
    )  # fmt: skip
    if censored:
        ax.annotate(
            "", (row["state"], y), xytext=ARROWS[censored], textcoords="offset points",
            arrowprops={"arrowstyle": "<-", "color": look.colour, "linewidth": 0.9, "shrinkB": 4},
        )  # fmt: skip
    elif not np.isnan(row["low"]):
        low, high = max(row["low"], min(loads)), min(row["high"], max(loads))
        ax.vlines(row["state"], low, high, color=look.colour, linewidth=1)


def _handles(style_of: dict[str, Look], panels: list[_Panel], limits: Limits, least: float) -> page.Handles:
    exponents = _exponents(panels)
    handles: page.Handles = [
        Line2D(
            [], [], color=look.colour, marker=look.marker, linestyle="-" if exponents[name] else "none",
            label="\n".join([name, *exponents[name]]),
        )
        for name, look in style_of.items()
    ]  # fmt: skip
    if any(panels[0].capacities["apart"]):
        hollow: Any = HOLLOW | {"label": f"seeds differ by > {APART:g}"}
        handles.append(Line2D([], [], **hollow))
    for label, known in limits.items():
        last = max((state for state, _ in known), default=np.nan)
        if last < least:
            handles.append(heading(f"{label}:\nat most {last:.2g} scalars, left of the picture"))
        elif known:
            handles.append(Line2D([], [], color=GREY, linestyle=DASHES[label], linewidth=0.9, label=label))
    return handles


def _exponents(panels: list[_Panel]) -> dict[str, list[str]]:
    """Return the power laws of each series, a line a panel: "state^1.50 (1.47 to 1.52) left"."""
    lines: dict[str, list[str]] = {series: [] for series in panels[0].fits["series"]}
    for side, panel in zip((" left", " right") if len(panels) > 1 else ("",), panels, strict=True):
        for fit in panel.fits.dropna(subset="exponent").to_dict("records"):
            interval = "" if np.isnan(fit["low"]) else f" ({fit['low']:.2f} to {fit['high']:.2f})"
            lines[fit["series"]].append(f"state^{fit['exponent']:.2f}{interval}{side}")
    return lines


def _words(panels: list[_Panel]) -> list[str]:
    known = _exponents(panels)
    lines = [f"{series}: pairs grow as {', '.join(of)}." for series, of in known.items() if of]
    without = [series for series, of in known.items() if not of]
    if without:
        few = f"fewer than {capacity.STATES} states, over an octave, with a capacity within the loads"
        lines.append(f"No exponent, for {few}: {', '.join(without)}.")
    above = [in_words(row) for row in panels[0].capacities.to_dict("records") if row["censored"] == "above"]
    return [*lines, f"Above the largest load: {', '.join(above)}."] if above else lines
