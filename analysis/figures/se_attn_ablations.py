"""Nunez et al. 2024, arXiv 2412.13328, the ablations, asked of recall: what each setting does."""

from analysis import scored
from analysis.cells import slices
from analysis.figure import caption
from analysis.figures.knobs import draw, tidy
from analysis.gallery import Picture, Study
from analysis.ladders import ladders
from analysis.published import ordering, read, words
from analysis.style import Style

TASKS = read.MQAR


def figure(study: Study, style: Style) -> Picture:
    """The paper's ablations are figures of language models' perplexity: only their orderings are compared."""
    rows = scored.means(study.table)
    found = ladders(rows)
    verdicts = ordering.claims("se_attn_ablations", scored.of_seeds(study.table))
    says = [
        f"Points that differ in one setting alone. {caption(rows, slices(study.table, 'test'))}",
        *words.of_claims(verdicts),
    ]
    return Picture(draw(found, rows, says[0], style), tidy(found), says, {"claims": verdicts})
