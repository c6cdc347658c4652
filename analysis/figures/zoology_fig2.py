"""Arora et al. 2023, arXiv 2312.04927, Figure 2: recall against d_model, a panel a load."""

from functools import partial

import pandas as pd

from ..drawing.figure import caption
from ..drawing.style import Style
from ..published import beside, ordering, read, words
from ..published.picture import Panel, draw, dressed
from ..statistics import scored
from ..statistics.axes import Axis
from .gallery import Picture, Study

TASKS = read.MQAR
AXIS = Axis("d_model", "Width d_model", "channels")


def figure(study: Study, style: Style) -> Picture:
    """Draw each load with ours and published if settings agree; else the published loads, then ours."""
    ours, seeds = scored.alone(study.table), scored.of_seeds(study.table)
    published = read.points("zoology_fig2")
    compared = beside.compare(published, ours)
    printed = dressed(published, ours)
    tables, sentences = {}, [caption(ours)]
    if len(compared):
        tables["deviation"] = compared
        sentences += words.of_points(compared)
    else:
        loads = printed.assign(load=printed["slice"])
        tables["ordering"] = ordering.compare(loads, seeds, x=AXIS.column, panel="load")
        sentences += words.of_ordering(tables["ordering"], "widths")
    panels = _panels(printed, ours, same=len(compared) > 0)
    return Picture(draw(panels, ours, sentences[0], style), ours, sentences, tables)


def _panels(printed: pd.DataFrame, ours: pd.DataFrame, *, same: bool) -> list[list[Panel]]:
    theirs, mine = (
        {str(name): rows for name, rows in side.groupby("slice", sort=False)} for side in (printed, ours)
    )
    panel = partial(Panel, axis=AXIS, dodge=True)
    if same:
        return [[panel(_short(name), published=theirs.get(name), ours=rows) for name, rows in mine.items()]]
    return [
        [panel(f"published: {_short(name)}", published=rows) for name, rows in theirs.items()],
        [panel(f"ours: {_short(name)}", ours=rows) for name, rows in mine.items()],
    ]


def _short(name: str) -> str:
    """Return a slice in words: "64 tokens, 4 pairs"."""
    seq_len, pairs = (part.split("=")[1] for part in name.split(","))
    return f"{seq_len} tokens, {pairs} pairs"
