"""Arora et al. 2024, arXiv 2402.18668, Figure 2: recall against state, ours beside the published."""

from analysis.drawing.style import Style
from analysis.figures._against_state import against_state
from analysis.figures.gallery import Picture, Study
from analysis.published import read

TASKS = read.MQAR


def figure(study: Study, style: Style) -> Picture:
    return against_state(study, style)
