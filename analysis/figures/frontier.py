"""Recall against resident state, with what no model can do: the picture of python -m analysis.pareto."""

from analysis.drawing.figure import caption
from analysis.drawing.style import Style
from analysis.figures.gallery import Picture, Study
from analysis.pareto import pareto


def figure(study: Study, style: Style) -> Picture:
    """The mean of the slices, a panel a load; what one step reads in a further row where that is less."""
    shown = pareto(study.table)
    sentences = [caption(shown.points, shown.loads[0].slices if len(shown.loads) == 1 else ())]
    sentences += [f"Note: {note}" for note in shown.notes] + [f"Wrong: {line}" for line in shown.wrong]
    return Picture(shown.picture(style), shown.points, sentences, {})
