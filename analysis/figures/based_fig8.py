"""Arora et al. 2024, arXiv 2402.18668, Figure 8: Figure 2 and approximations of attention."""

from functools import partial

from ..published import read
from ._against_state import against_state

TASKS = read.MQAR
# the published points are those shared with Figure 2; for the others only an ordering is known
figure = partial(against_state, claims="based_fig8")
