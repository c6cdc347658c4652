"""Accuracy of every mixer, a line a mixer with the best first, larger marks for more state."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Affine2D

from ..drawing import draw, page
from ..drawing.figure import caption
from ..drawing.legend import common_handles
from ..drawing.page import Handles
from ..drawing.style import GREY, INK, Look, Style, by_family, family_colours, small
from ..records.cells import slices
from ..statistics import scored
from .gallery import Picture, Study

HEIGHT = 0.17  # inches a line
COLUMNS = 2  # columns of lines if there are more than FEW mixers
FEW = 20
AREAS = (0.3, 1.5)  # area of the mark of the smallest state, and of a state RANGE times as large or more
RANGE = 16.0


def figure(study: Study, style: Style) -> Picture:
    """Draw the mean of all slices, for results of one load.

    A mixer's place is that of its point nearest to the middle size, so that all are compared at one size.
    """
    rows = _in_order(scored.of_one_load(study.table))
    sentences = [
        "One line per mixer, ordered by accuracy at the middle size. A larger mark is a larger state. "
        f"{caption(rows, slices(study.table, 'test'))}"
    ]
    shown = rows.reindex(columns=["label", "mixer", "state_resident", *scored.SCORES])
    return Picture(_draw(rows, sentences[0], style), shown, sentences, {})


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Add each point's place, 0 for the best mixer at the middle size, and `times`, the ratio of its state to
    the smallest state."""
    size = np.log(rows["state_resident"].to_numpy(float))
    times = [float(each) for each in np.exp(size - size.min())]
    rows = rows.assign(off=np.abs(size - np.median(size)), times=times).sort_values("off", kind="stable")
    middle = rows.drop_duplicates("mixer").sort_values("accuracy", ascending=False, kind="stable")
    rows = rows.assign(place=rows["mixer"].map(middle["mixer"].tolist().index))
    return rows.sort_values(["place", "state_resident"], ignore_index=True)


def _draw(rows: pd.DataFrame, text: str, style: Style) -> Figure:
    mixers = max(rows["place"].tolist()) + 1
    columns = COLUMNS if mixers > FEW and style.across > COLUMNS else 1
    lines = -(-mixers // columns)
    made = page.new(style.width * (1.0 if style.below else 0.8 * columns), 0.5 + HEIGHT * lines)
    for number, ax in enumerate(made.subplots(1, columns, sharex=True, squeeze=False)[0]):
        here = rows.loc[rows["place"] // lines == number]
        _lines(ax, here)
        ax.set_ylim(number * lines + lines - 0.4, number * lines - 0.6)
    page.finish(made, _handles(rows, style), text, style, x_label="Test accuracy")
    return made


def _area(times: float) -> float:
    """Return the area of a mark, which grows with the logarithm of `times`, its state over the smallest."""
    return AREAS[0] + (AREAS[1] - AREAS[0]) * min(1.0, math.log(times, RANGE))


def _lines(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the usual marks with their axes swapped, and a dotted line at chance."""
    colours, names = family_colours(rows), rows.drop_duplicates("place")
    swapped = Affine2D([[0, 1, 0], [1, 0, 0], [0, 0, 1]]) + ax.transData
    for row in rows.to_dict("records"):
        look = Look(colours[row["family"]], "o")
        draw.mark(ax, row, look, "place", area=_area(row["times"]), at=swapped)
    for guess in rows["chance"].dropna().unique():
        ax.axvline(guess, color=GREY, linestyle=":", linewidth=0.8)
    ax.set_yticks(names["place"].tolist(), names["label"].tolist(), fontsize=small())
    ax.set_xlim(-0.03, 1.03)
    ax.tick_params(axis="y", length=0)


def _handles(rows: pd.DataFrame, style: Style) -> Handles:
    """Return the legend entries of the families, of three sizes, and of marks common to all pictures."""
    colours, least = family_colours(rows), min(rows["state_resident"].tolist())
    families = rows.sort_values("family", key=by_family)["family"].unique()
    spots = [(family, colours[family], 1.0) for family in families]
    for times, more in ((1.0, ""), (RANGE**0.5, ""), (RANGE, " or more")):
        spots.append((f"{least * times:,.0f} scalars{more}", INK, _area(times)))
    marks: Handles = [
        Line2D([], [], linestyle="none", marker="o", c=colour, label=name, ms=area**0.5 * style.marker)
        for name, colour, area in spots
    ]
    return [*marks, *common_handles(rows, style.letters)]
