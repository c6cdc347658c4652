"""Arora et al. 2024, arXiv 2402.18668, Figure 8: Figure 2 and approximations of attention."""

from ..drawing.style import Style
from ..published import read
from ._against_state import against_state
from .gallery import Picture, Study

TASKS = read.MQAR


def figure(study: Study, style: Style) -> Picture:
    """The published points are those it shares with Figure 2; of the others an ordering is known."""
    return against_state(study, style, claims="based_fig8")
