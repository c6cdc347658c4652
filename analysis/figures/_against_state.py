"""Draw accuracy against state like Figures 2 and 8 of arXiv 2402.18668: the mean of all slices.

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

AXIS, RESIDENT = AXES["paper"], AXES["resident"]
TOKENS = 1024  # length of the rows for which the published figures count the state


def against_state(study: Study, style: Style, claims: str = "") -> Picture:
    """Draw our points and the published ones on the same axes if settings agree, else side by side.

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
        x = {"published": AXIS.column, "ours": AXIS.column}
        tables["ordering"] = ordering.compare(printed, seeds, x=x)
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
