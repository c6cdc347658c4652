"""Recall against the distance back to the key: a panel a mixer, a line a setting."""

from ..drawing.by_series import Axis, draw
from ..drawing.style import Style
from ..records import cells
from ..statistics import groups, learning_rate
from ..statistics.points import points
from .gallery import Picture, Study

FEWEST = 100  # answers at a distance over all seeds; fewer say too little to be shown
AXIS = Axis("distance", "Tokens from the key to the query, at most")


def figure(study: Study, style: Style) -> Picture:
    """Draw the hardest slice of the test split, whose distances reach farthest."""
    table = cells.identify(study.table)
    hardest = cells.slices(table, "test")[-1]
    chosen = learning_rate.choose(table)
    grouped = groups.by_group(study.groups, "distance", table, chosen)
    grouped = grouped.loc[(grouped["slice"] == hardest) & (grouped["answers"] >= FEWEST)]
    grouped = grouped.drop(columns=["seeds", "diverged"])
    if grouped.empty:
        raise ValueError(f"No distance has {FEWEST} answers in {hardest}: test on more examples.")
    about = points(table, chosen, split="test", slices=[hardest])
    seeds = sorted(set(about["seeds"].tolist()))
    lrs = "the one that was tried" if all(about["single_lr"]) else "chosen on validation"
    known = about.drop(columns=["accuracy", "low", "high", "slice", "seed_accuracies"])
    rows = grouped.merge(known, on="point")
    sentences = [
        f"Task {about['task'].iloc[0]}, slice {hardest}. Accuracy at x: on answers whose key is more "
        f"than x/2 and at most x tokens back, pooled over {' or '.join(map(str, seeds))} seeds. Bars: 95 %, "
        f"bootstrap over seeds. Shown from {FEWEST} answers on. Learning rate: {lrs}. Darker: more state."
    ]
    return Picture(draw(rows, AXIS, "Test accuracy", sentences[0], style), rows, sentences, {})
