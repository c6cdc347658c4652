"""Nunez et al. 2024, arXiv 2412.13328, the ablations, measured on recall: the effect of each setting."""

from ..drawing.figure import caption
from ..drawing.style import Style
from ..published import ordering, read, words
from ..records.cells import slices
from ..records.ladders import ladders
from ..statistics import scored
from .gallery import Picture, Study
from .knobs import draw, tidy

TASKS = read.MQAR


def figure(study: Study, style: Style) -> Picture:
    """Draw our ablations; the paper's are perplexities of language models, so only orderings are compared."""
    rows = scored.means(study.table)
    of_setting = ladders(rows)
    if not of_setting:
        raise ValueError("No two points here differ in one setting alone: these are not the ablations.")
    verdicts = ordering.claims("se_attn_ablations", scored.of_seeds(study.table))
    sentences = [
        f"Lines join points that differ in one setting only. {caption(rows, slices(study.table, 'test'))}",
        *words.of_claims(verdicts),
    ]
    return Picture(
        draw(of_setting, rows, sentences[0], style), tidy(of_setting), sentences, {"claims": verdicts}
    )
