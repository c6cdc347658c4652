"""Recall against resident state, with the bound for any model: the picture of python -m analysis.pareto."""

from ..drawing.figure import caption
from ..drawing.style import Style
from ..pareto import pareto
from .gallery import Picture, Study


def figure(study: Study, style: Style) -> Picture:
    """Draw the mean of the slices, a panel a load; a further row shows what a step reads, if that is less."""
    shown = pareto(study.table)
    sentences = [caption(shown.points, shown.slices)]
    sentences += [f"Note: {note}" for note in shown.notes] + [f"Wrong: {line}" for line in shown.wrong]
    return Picture(shown.picture(style), shown.points, sentences, {})
