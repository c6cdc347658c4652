"""Arora et al. 2024, arXiv 2402.18668, Figure 2: recall against state, ours beside the published.

The state is counted in two ways: what a model really keeps, and what the published figures count of it.
"""

import pandas as pd

from ..drawing.figure import caption
from ..drawing.style import Style
from ..published import beside, ordering, read, words
from ..published.picture import Panel, draw, dressed
from ..records.cells import slices
from ..statistics import scored
from ..statistics.axes import AXES
from .gallery import Picture, Study

TASKS = read.MQAR
AXIS, RESIDENT = AXES["paper"], AXES["resident"]
TOKENS = 1024  # length of the rows for which the published figures count the state


def figure(study: Study, style: Style, claims: str = "") -> Picture:
    """Draw the mean of all slices, ours and published: on the same axes if settings agree, else side by side.

    claims: the figure whose claims are also compared with our results.
    """
    ours, seeds = scored.means(study.table), scored.of_seeds(study.table)
    published = read.points("based_fig2")
    compared = beside.compare(published, ours)
    printed = dressed(published, ours).rename(columns={"state": AXIS.column, "resident": RESIDENT.column})
    tables, sentences = {}, [caption(ours, slices(study.table, "test"))]
    if len(compared):
        tables["deviation"] = compared
        unknown = len(printed) - len(printed.dropna(subset=[RESIDENT.column]))  # they keep an unknown state
        if unknown:
            where = "they appear only in the right panel"
            sentences.append(f"{unknown} published points do not state their setting: {where}.")
        sentences += words.of_points(compared)
    else:
        tables["ordering"] = ordering.compare(printed, seeds, x=AXIS.column)
        sentences += words.of_ordering(tables["ordering"], "sizes of state")
    if claims:
        tables["claims"] = ordering.claims(claims, seeds)
        sentences += words.of_claims(tables["claims"])
    panels = _panels(study.name, printed, ours, same=len(compared) > 0)
    return Picture(draw([panels], ours, sentences[0], style), ours, sentences, tables)


def _panels(name: str, printed: pd.DataFrame, ours: pd.DataFrame, *, same: bool) -> list[Panel]:
    tokens = max(ours["state_seq_len"])
    if same:
        with_size = printed.dropna(subset=[RESIDENT.column])
        return [
            Panel("what is really kept", RESIDENT, tokens, published=with_size, ours=ours),
            Panel("as published figures count it", AXIS, tokens, published=printed, ours=ours),
        ]
    there = [Panel("published", AXIS, TOKENS, published=printed)] if len(printed) else []
    return [*there, Panel(f"ours: {name}", AXIS, tokens, ours=ours)]
