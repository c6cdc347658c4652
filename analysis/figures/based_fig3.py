"""Arora et al. 2024, arXiv 2402.18668, Figure 3: feature maps by state and by parameters."""

from ..drawing.figure import caption
from ..drawing.style import Style
from ..published import ordering, read, words
from ..published.picture import Panel, draw
from ..records.cells import slices
from ..statistics import scored
from ..statistics.axes import AXES
from .gallery import Picture, Study

TASKS = read.MQAR
SHOWN = ("resident", "parameters")  # the axes, which the published figure has on top and at the bottom


def figure(study: Study, style: Style) -> Picture:
    """Draw the mean of the slices, and the hardest slice alone, which the published figure shows.

    No numbers can be read off the published figure; its claims are compared with ours as orderings.
    """
    mean, alone = scored.means(study.table), scored.alone(study.table)
    test_slices = slices(study.table, "test")
    hardest = alone.loc[alone["slice"] == test_slices[-1]]
    tokens = max(mean["state_seq_len"])
    titles = {f"mean of {len(test_slices)} slices": mean, f"the hardest: {test_slices[-1]}": hardest}
    rows = [
        [Panel(title, AXES[axis], tokens, ours=points, named=axis == SHOWN[-1]) for axis in SHOWN]
        for title, points in titles.items()
    ]
    verdicts = ordering.claims("based_fig3", scored.of_seeds(study.table))
    sentences = [caption(mean, test_slices), *words.of_claims(verdicts)]
    return Picture(draw(rows, mean, sentences[0], style), alone, sentences, {"claims": verdicts})
