"""Recall against resident state, a panel a series: its points in colour, those of all others pale."""

from ..drawing.figure import caption, one_each
from ..drawing.style import Style
from ..records.cells import slices
from ..statistics import scored
from .gallery import Picture, Study


def figure(study: Study, style: Style) -> Picture:
    """Draw the mean of all slices, for results of one load."""
    rows, of = scored.of_one_load(study.table), slices(study.table, "test")
    numbers = rows.reindex(columns=["series", "knobs", "state_resident", *scored.SCORES])
    return Picture(one_each(rows, of, axis="resident", style=style), numbers, [caption(rows, of)], {})
