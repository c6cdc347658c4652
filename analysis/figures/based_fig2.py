"""Arora et al. 2024, arXiv 2402.18668, Figure 2: recall against state, ours beside the published."""

from ..drawing.style import Style
from ..published import read
from ._against_state import against_state
from .gallery import Picture, Study

TASKS = read.MQAR


def figure(study: Study, style: Style) -> Picture:
    return against_state(study, style)
