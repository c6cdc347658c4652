"""Validation accuracy while training, at the chosen learning rate: a panel a mixer, a thin line a seed."""

import pandas as pd
from matplotlib.axes import Axes

from ..drawing.by_series import Axis, draw
from ..drawing.curves import learning_curves
from ..drawing.figure import caption
from ..drawing.style import Style
from ..records import cells
from ..statistics import chance, learning_rate
from ..statistics.points import points
from ..statistics.seeds import written
from .gallery import Picture, Study

AXIS = Axis("step", "Training step", base=None, text="{:,.0f}".format)


def figure(study: Study, style: Style) -> Picture:
    """Draw one load.  A point's line is the mean of its seeds at steps that all reached, if they agree."""
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    about = points(table, chosen, split="test", slices=cells.slices(table, "test"))
    drawn = table.drop_duplicates("run_id").merge(chosen[["point", "lr"]], on=["point", "lr"])
    seeds = learning_curves(study.metrics).merge(drawn[["run_id", "point", "seed"]], on="run_id")
    about = chance.with_chance(about, table, cells.slices(table, "valid"))
    rows = _means(seeds).merge(about.drop(columns=["accuracy", "low", "high", "seed_accuracies"]), on="point")
    if rows.empty:
        raise ValueError("No step was validated by all seeds of a point: there is no curve to draw.")
    sentences = [
        f"Mean of the validation slices; thick: mean of seeds. {caption(about, ranges=False)} "
        "Darker: more state."
    ]

    def add(ax: Axes, series: pd.DataFrame, shade_of: dict[str, str]) -> None:
        """Draw a thin line for each seed of the series."""
        units = dict(zip(series["point"], series["unit"], strict=True))
        for (point, _), line in seeds.loc[seeds["point"].isin(list(units))].groupby(["point", "run_id"]):
            ax.plot(line["step"], line["accuracy"], color=shade_of[units[point]], linewidth=0.5, alpha=0.6)

    picture = draw(rows, AXIS, "Validation accuracy", sentences[0], style, marks=add)
    names = about[["point", "series", "d_model", "knobs", "lr"]]
    return Picture(picture, seeds.merge(names, on="point").drop(columns="point"), sentences, {})


def _means(seeds: pd.DataFrame) -> pd.DataFrame:
    rows = seeds.groupby(["point", "step"], as_index=False).agg(
        accuracy=("accuracy", "mean"), reached=("accuracy", "count"), seed_accuracies=("accuracy", written)
    )
    rows = rows.loc[rows["reached"] == rows.groupby("point")["reached"].transform("max")]
    return rows.assign(low=float("nan"), high=float("nan"))
