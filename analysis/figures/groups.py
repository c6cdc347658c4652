"""Recall of each kind of answer, as the task tells them apart (not by distance): a panel a mixer."""

from ..drawing.by_series import Axis, draw
from ..drawing.style import Style
from ..records import cells
from ..statistics import groups, learning_rate
from ..statistics.points import points
from .gallery import Picture, Study

ALL = "all test slices"


def figure(study: Study, style: Style) -> Picture:
    """Every group of the task but distance, one after the other; the slices of the test split together."""
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    names = [name for name in groups.names(study.groups) if name != "distance"]
    if not names:
        raise ValueError(
            "These answers are told apart by distance at most: the picture `distance` shows that."
        )
    counted = study.groups.loc[study.groups["group"].isin(names)]
    counted = counted.assign(kind=[f"{row.group} {row.value}" for row in counted.itertuples()])
    kinds = list(dict.fromkeys(counted["kind"]))
    summed = counted.assign(slice=ALL, group="kind", value=counted["kind"].map(kinds.index))
    summed = summed.groupby(["run_id", "split", "slice", "group", "value"], as_index=False)[
        ["answers", "right"]
    ].sum()
    grouped = groups.by_group(summed, "kind", table, chosen).drop(columns=["seeds", "diverged", "slice"])
    about = points(table, chosen, split="test", slices=cells.slices(table, "test"))
    rows = grouped.merge(about.drop(columns=["accuracy", "low", "high", "seed_accuracies"]), on="point")
    seeds = " or ".join(map(str, sorted(set(about["seeds"].tolist()))))
    sentences = [
        f"Task {about['task'].iloc[0]}, {ALL}. Accuracy of each kind of answer, pooled over {seeds} seeds; "
        "bars: 95 %, seeds drawn again. Darker: more state.",
    ]
    axis = Axis("kind", "Kind of answer", base=None, text=lambda place: kinds[round(place)])
    figure = draw(rows, axis, "Test accuracy", sentences[0], style)
    return Picture(figure, rows.assign(kind=[kinds[place] for place in rows["kind"]]), sentences, {})
