"""Arora et al. 2024, arXiv 2402.18668, Figure 2: recall against state, ours beside the published."""

from ..published import read
from ._against_state import against_state

TASKS = read.MQAR
figure = against_state
