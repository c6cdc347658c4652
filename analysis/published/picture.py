"""Draw published points and ours in one picture: on the same axes if settings agree, else side by side."""

import textwrap
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from ..drawing import ends, page, ticks
from ..drawing.draw import PALE, chance, lines, mark, root
from ..drawing.legend import common_handles
from ..drawing.style import INK, Look, Style, looks, marker_area, mixed, small
from ..records.cells import word
from ..statistics import axes
from ..statistics.chance import chance as guess
from ..statistics.seeds import settled, top
from .read import mixers, settings

DASHES = ((0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))  # one for each source of published points
ROOM = 1.35  # the factor by which an axis is wider than its points, at each end
DODGE = 2.2  # typographic points between series at the same place of an axis of widths


@dataclass(frozen=True)
class Panel:
    """A panel of published points, ours, or both, against an axis; tokens: after which state is counted.

    dodge: move series apart that would hide each other; not if x is the quantity that they are compared by.
    named: also write the names of our series at the right edge.
    """

    title: str
    axis: axes.Axis
    tokens: int = 0
    dodge: bool = False
    named: bool = False
    published: pd.DataFrame | None = None
    ours: pd.DataFrame | None = None

    @property
    def shown(self) -> list[pd.DataFrame]:
        return [frame for frame in (self.published, self.ours) if frame is not None]


def dressed(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Return every published point with its series, its family and its knobs in words.

    A mixer in `ours` has the name and colour that it has there; any other has those of mixers.csv.
    """
    trained = ours.drop_duplicates("mixer")[["mixer", "series", "family"]]
    others = mixers()
    about = pd.concat([trained, others.loc[~others["mixer"].isin(trained["mixer"].tolist())]])
    names = [name for name in settings(published) if name != "d_model"]
    knobs = [
        " ".join(f"{name.removeprefix('mixer.')}={word(row[name])}" for name in names if word(row[name]))
        for row in published.to_dict("records")
    ]
    guesses = [guess(ours, [name]) for name in published["slice"]]
    return published.assign(knobs=knobs, chance=guesses).merge(about, on="mixer", validate="many_to_one")


def draw(rows: list[list[Panel]], ours: pd.DataFrame, caption: str, style: Style) -> Figure:
    """Draw rows of panels; a series looks the same in each, published or ours."""
    printed = [panel.published for row in rows for panel in row if panel.published is not None]
    rows = [row[i : i + style.across] for row in rows for i in range(0, len(row), style.across)]
    columns = max(map(len, rows))
    width = style.width * (1.0 if style.below else {1: 1.0, 2: 1.3}.get(columns, 1.8))
    figure = page.new(width, 0.5 + len(rows) * min(0.75 * style.height, 0.85 * width / columns))
    grid = figure.subplots(len(rows), columns, sharey=True, squeeze=False)
    style_of = looks(pd.concat([ours, *printed]))
    for row, places in zip(rows, grid, strict=True):
        for i, (ax, panel) in enumerate(zip(places, row, strict=False)):
            _panel(ax, panel, style_of)
            _axis(ax, panel, width / columns, first=i == 0)
            if panel.named and panel.ours is not None:
                _names(ax, panel.ours, style_of, panel.axis.column)
        for ax in places[len(row) :]:
            ax.remove()
    panels = [panel for row in rows for panel in row]
    page.finish(figure, _handles(style_of, panels, style.letters), caption, style)
    return figure


def _panel(ax: Axes, panel: Panel, style_of: dict[str, Look]) -> None:
    x = panel.axis.column
    for frame in panel.shown:
        for dash, (_, run) in zip(DASHES, frame.groupby("source") if "source" in frame else [], strict=False):
            _published(ax, run, style_of, x, dash)
    chance(ax, panel.shown[-1], x)
    if panel.ours is None:
        return
    names = sorted(set(panel.ours["series"]), key=list(style_of).index)
    for i, name in enumerate(names):
        aside = DODGE * (i - (len(names) - 1) / 2) if panel.dodge else 0.0
        _ours(ax, panel.ours.loc[panel.ours["series"] == name], style_of, x, aside)


def _published(ax: Axes, rows: pd.DataFrame, style_of: dict[str, Look], x: str, dash: tuple) -> None:
    """Draw published points pale, joined by the dashes of their source; without known settings: single."""
    for name, line in lines(rows.dropna(subset=[x]), x):
        ax.plot(line[x], line["accuracy"], color=style_of[name].colour, linewidth=0.9, alpha=0.6, ls=dash)
    for row in rows.dropna(subset=[x]).to_dict("records"):
        look = style_of[row["series"]]
        ax.scatter(
            row[x], row["accuracy"], s=marker_area() * look.area, marker=look.marker,
            facecolor=mixed(look.colour, PALE), edgecolor="white", linewidth=0.6, zorder=3.5, clip_on=False,
        )  # fmt: skip


def _ours(ax: Axes, rows: pd.DataFrame, style_of: dict[str, Look], x: str, aside: float) -> None:
    """Draw our points, moved aside by so many typographic points."""
    known = rows.loc[rows[x].notna()]
    place = ax.transData + ScaledTranslation(aside / 72, 0, root(ax).dpi_scale_trans)
    for name, line in lines(known.loc[settled(known)], x):
        colour = style_of[name].colour
        ax.plot(line[x], line["accuracy"], color=colour, linewidth=0.9, alpha=0.6, transform=place)
    for row in known.to_dict("records"):
        mark(ax, row, style_of[row["series"]], x, at=place)


def _axis(ax: Axes, panel: Panel, inches: float, *, first: bool) -> None:
    states = [x for frame in panel.shown for x in frame[panel.axis.column].dropna().clip(lower=1)]
    ticks.scale(ax, panel.axis, min(states, default=1) / ROOM, max(states, default=1) * ROOM, inches)
    ax.set_ylim(-0.03, 1.06)
    letters = int(inches * 84 / small())
    ax.set_title(textwrap.fill(panel.title.replace(",", ", ").replace("  ", " "), letters))
    ax.set_xlabel(textwrap.fill(panel.axis.label(str(panel.tokens)), letters))
    if first:
        ax.set_ylabel("Test accuracy")


def _names(ax: Axes, ours: pd.DataFrame, style_of: dict[str, Look], x: str) -> None:
    """Write the name of each series at the height of its point with the largest x."""
    last = ours.loc[ours[x].notna()].sort_values([x, "accuracy"]).groupby("series").tail(1)
    names, heights = last["series"].tolist(), [top(row) for row in last.to_dict("records")]
    ends.write(ax, names, heights, [style_of[name].colour for name in names])


def _handles(style_of: dict[str, Look], panels: list[Panel], letters: int) -> page.Handles:
    shown = set(pd.concat([frame["series"] for panel in panels for frame in panel.shown]))
    handles: page.Handles = [
        Line2D(
            [], [], color=look.colour, marker=look.marker, linestyle="none",
            label=textwrap.fill(name, letters),
        )
        for name, look in style_of.items()
        if name in shown
    ]  # fmt: skip
    mine = [panel.ours for panel in panels if panel.ours is not None]
    handles += common_handles(pd.concat(mine), letters) if mine else []
    printed = [panel.published for panel in panels if panel.published is not None]
    if not printed:
        return handles
    handles.append(Line2D([], [], color=INK, marker="o", linewidth=0.9, label="ours"))
    sources = pd.concat(printed).groupby("source")["figure"].first().items()
    pale = {"color": INK, "marker": "o", "markeredgecolor": "white", "linewidth": 0.9}
    for dash, (source, figure) in zip(DASHES, sources, strict=False):
        text = textwrap.fill(f"published: {source}, {figure}", letters)
        handles.append(Line2D([], [], **pale, markerfacecolor=mixed(INK, PALE), linestyle=dash, label=text))
    return handles
