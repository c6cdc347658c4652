"""Nunez et al. 2024, arXiv 2412.13328, the ablations, measured on recall: the effect of each setting."""

from dataclasses import replace

from ..drawing.style import Style
from ..published import ordering, read, words
from ..statistics import scored
from . import knobs
from .gallery import Picture, Study

TASKS = read.MQAR


def figure(study: Study, style: Style) -> Picture:
    """Draw our ablations; the paper's are perplexities of language models, so only orderings are compared."""
    picture = knobs.figure(study, style)
    verdicts = ordering.claims("se_attn_ablations", scored.of_seeds(study.table))
    sentences = [*picture.sentences, *words.of_claims(verdicts)]
    return replace(picture, sentences=sentences, tables={"claims": verdicts})
