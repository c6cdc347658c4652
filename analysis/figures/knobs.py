"""Show the effect of each setting: a panel a setting, a line for points that differ only in it."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..drawing import ends, page, ticks
from ..drawing.draw import chance, mark
from ..drawing.figure import caption
from ..drawing.legend import common_handles
from ..drawing.style import Look, Style, looks, small
from ..records.cells import slices
from ..records.ladders import Ladder, ladders
from ..statistics import scored
from ..statistics.seeds import settled, top
from .gallery import Picture, Study

DODGE = 0.07  # shift between lines at the same word; words are 1 apart


def figure(study: Study, style: Style) -> Picture:
    """Draw the mean of all slices, for results of one load."""
    rows = scored.means(study.table)
    of_setting = ladders(rows) if len(set(rows["load"])) == 1 else {}
    if not of_setting:
        raise ValueError("No two points here are of one load and differ in one setting alone.")
    sentences = [
        f"Lines join points that differ in one setting only. {caption(rows, slices(study.table, 'test'))}"
    ]
    return Picture(draw(of_setting, rows, sentences[0], style), tidy(of_setting), sentences, {})


def tidy(of_setting: dict[str, list[Ladder]]) -> pd.DataFrame:
    """Return one row for each point of a ladder: knob, value, series, fixed, and the point's scores."""
    shown = ["mixer", "series", "d_model", "state_resident", "state_touched", *scored.SCORES]
    parts = [
        ladder.rows[shown].assign(knob=ladder.knob, value=ladder.values, fixed=ladder.fixed)
        for group in of_setting.values()
        for ladder in group
    ]
    return pd.concat(parts, ignore_index=True).reindex(columns=["knob", "value", "fixed", *shown])


def draw(of_setting: dict[str, list[Ladder]], points: pd.DataFrame, caption: str, style: Style) -> Figure:
    lines, columns = page.grid(len(of_setting), most=2 if style.below else 3)
    width = style.width * (1.0 if style.below else {1: 1.0, 2: 1.5}.get(columns, 2.0))
    figure = page.new(width, 0.3 + lines * min(0.75 * style.height, 0.8 * width / columns))
    grid = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    style_of = looks(points)
    for place, (ax, (knob, group)) in enumerate(zip(grid, of_setting.items(), strict=False)):
        _panel(ax, group, style_of)
        ax.set_xlabel(knob)
        ax.set_ylim(-0.03, 1.06)
        if place % columns == 0:
            ax.set_ylabel("Test accuracy")
    for ax in grid[len(of_setting) :]:
        ax.remove()
    drawn = pd.concat([ladder.rows for group in of_setting.values() for ladder in group])
    page.finish(figure, common_handles(drawn, style.letters), caption, style, below=True)
    return figure


def _panel(ax: Axes, group: list[Ladder], style_of: dict[str, Look]) -> None:
    counts = all(ladder.counts for ladder in group)
    values = [value for ladder in group for value in ladder.values]
    places = {value: float(value) for value in values} if counts else _words(group)
    for number, ladder in enumerate(group):
        look = style_of[ladder.rows["series"].tolist()[-1]]
        aside = 0.0 if counts else DODGE * (number - (len(group) - 1) / 2)
        xs = [places[value] + aside for value in ladder.values]
        rows = ladder.rows.assign(place=xs)
        agreeing = rows["accuracy"].where(settled(rows))
        dash = "-" if counts else ":"
        ax.plot(xs, agreeing, color=look.colour, linewidth=1.0, alpha=0.7, linestyle=dash)
        for row in rows.to_dict("records"):
            mark(ax, row, style_of[row["series"]], "place")
    chance(ax, group[0].rows, "d_model")
    _ticks(ax, places, counts)
    _names(ax, group, style_of, places)


def _names(ax: Axes, group: list[Ladder], style_of: dict[str, Look], places: dict[str, float]) -> None:
    """Write beside the end of each line its fixed settings, and its mixer if the panel has several."""
    several = len({ladder.rows["mixer"].tolist()[0] for ladder in group}) > 1
    texts, heights, colours = [], [], []
    for ladder in group:
        last = int(np.argmax([places[value] for value in ladder.values]))
        label = str(ladder.rows["label"].tolist()[last])
        texts.append(" ".join(filter(None, [label if several else "", ladder.fixed])) or label)
        heights.append(top(ladder.rows.to_dict("records")[last]))
        colours.append(style_of[ladder.rows["series"].tolist()[last]].colour)
    ends.write(ax, texts, heights, colours)


def _words(group: list[Ladder]) -> dict[str, float]:
    """Return value -> its place on the axis, with the best value on the left."""
    rows = pd.concat([ladder.rows.assign(value=ladder.values) for ladder in group])
    best = {str(value): max(scores["accuracy"]) for value, scores in rows.groupby("value")}
    return {value: float(place) for place, value in enumerate(sorted(best, key=lambda name: -best[name]))}


def _ticks(ax: Axes, places: dict[str, float], counts: bool) -> None:
    names = {place: value for value, place in places.items()}
    if counts and min(names) > 0:
        ax.set_xscale("log", base=2)
    elif not counts:
        ax.set_xlim(-0.5, len(places) - 0.5)
        ax.tick_params(axis="x", labelsize=small(), rotation=30 if len(places) > 4 else 0)
    ticks.fixed(ax.xaxis, sorted(names), lambda x: names.get(x, f"{x:g}"))
