"""Compute and draw how cells learned: validation accuracy and training loss against training steps."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ..statistics.points import in_words
from .style import CALM, looks

DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)), (0, (9, 2)), (0, (2, 1, 2, 4)))  # in turn


def learning_curves(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return rows of run_id, step and accuracy, the unweighted mean over the validation slices.

    metrics: the table of `zoo.results.load_metrics`.
    """
    rows = metrics.loc[(metrics["split"] == "valid") & (metrics["metric"] == "accuracy")]
    return rows.groupby(["run_id", "step"], as_index=False).agg(accuracy=("value", "mean"))


def training_losses(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return rows of run_id, step and loss, the mean over the answers since the previous step on record.

    metrics: the table of `zoo.results.load_metrics`; a mixture's segments count by their answers.
    """
    rows = metrics.loc[(metrics["split"] == "train") & metrics["metric"].isin(["loss", "answers"])]
    keys = ["run_id", "step", "slice"]
    wide = rows.pivot_table(index=keys, columns="metric", values="value").reset_index()
    known = wide["loss"].fillna(np.inf)  # a NaN must not count as 0
    summed = wide.assign(loss=known * wide["answers"]).groupby(["run_id", "step"], as_index=False)
    total = summed[["loss", "answers"]].sum()
    return total.assign(loss=total["loss"] / total["answers"]).drop(columns="answers")


def picture(curves: pd.DataFrame, cells: pd.DataFrame) -> Figure:
    """Draw one line a cell: a colour a family, a marker a series, different dashes within a series.

    curves: from `learning_curves`; cells: rows of `analysis.records.cells.identify`, one for each cell to
    show."""
    with matplotlib.rc_context(CALM):
        figure = Figure(figsize=(7.6, 3.6), layout=ConstrainedLayoutEngine())
        ax = figure.subplots()
        style = looks(cells)
        of_its_series = cells.groupby("series").cumcount().tolist()
        for cell, number in zip(cells.to_dict("records"), of_its_series, strict=True):
            line = curves.loc[curves["run_id"] == cell["run_id"]].sort_values("step")
            look = style[cell["series"]]
            label = f"{in_words(cell)}\nlr {cell['lr']:.2g}, seed {cell['seed']}"
            ax.plot(
                line["step"], line["accuracy"], label=label, color=look.colour, linewidth=1.1,
                linestyle=DASHES[number % len(DASHES)],
                marker=look.marker, markersize=4, markeredgecolor="white", markeredgewidth=0.5,
            )  # fmt: skip
        ax.set_ylim(-0.03, 1.06)
        ax.set_xlabel("Training step")
        ax.set_ylabel("Validation accuracy, mean of its slices")
        figure.legend(loc="outside right upper", fontsize=7.2, handlelength=3)
    return figure
