"""Recall at each slice of the test split: a row a mixer and setting, a column a slice."""

import textwrap

import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure

from analysis.drawing import page
from analysis.drawing.figure import caption
from analysis.drawing.style import Style, by_family, looks, small
from analysis.figures.gallery import Picture, Study
from analysis.records import cells
from analysis.statistics import scored
from analysis.statistics.chance import SAID, chance, said
from analysis.statistics.points import in_words

MOST = 40  # rows; of more settings, each series shows its best
GUESS = {True: "chance, 1/n", False: "chance"}  # whether it is a guess among the row's values


def figure(study: Study, style: Style) -> Picture:
    """Cells of one load each are put together in the row of their mixer and setting."""
    rows = scored.alone(study.table)
    rows = rows.assign(unit=[in_words(row) for row in rows.to_dict("records")])
    if len(rows) > len(rows.drop_duplicates(["unit", "slice"])):
        asked = "; ".join(sorted(set(rows["load"])))
        raise ValueError(f"A slice was asked for in several loads ({asked}): choose one with --where.")
    shown = _best(rows) if len(set(rows["unit"])) > MOST else rows
    left_out = " Of each mixer the setting with the best mean." if len(shown) < len(rows) else ""
    says = [
        f"Accuracy in per cent at each slice of the test split. {caption(rows, ranges=False)}{left_out}",
    ]
    return Picture(_draw(shown, study.table, says[0], style), rows, says, {})


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the unit with the best mean, for each series."""
    means = rows.groupby(["series", "unit"], as_index=False).agg(mean=("accuracy", "mean"))
    best = means.sort_values("mean").drop_duplicates("series", keep="last")["unit"]
    return rows.loc[rows["unit"].isin(best)]


def _draw(rows: pd.DataFrame, table: pd.DataFrame, caption: str, style: Style) -> Figure:
    slices = cells.slices(table, "test")
    wide, names = _table(rows, table, slices, style.letters)
    figure = page.new(style.width, 0.9 + sum(0.11 + 0.13 * (1 + name.count("\n")) for name in names))
    ax = figure.subplots()
    seaborn.heatmap(
        100 * wide, ax=ax, vmin=0, vmax=100, cmap="cividis", annot=True, fmt=".0f", linewidths=0.8,
        annot_kws={"fontsize": small()}, cbar_kws={"label": "Accuracy (per cent)", "aspect": 30, "pad": 0.02},
    )  # fmt: skip
    keys = [part.partition("=")[0] for part in slices[0].split(",")]
    values = ["\n".join(part.partition("=")[2] for part in name.split(",")) for name in slices]
    ax.set_xticklabels(values, rotation=0)
    ax.set_yticklabels(names, rotation=0)
    ax.set(xlabel=f"slice: {' above '.join(keys)}", ylabel="")
    ax.tick_params(length=0)
    ax.grid(visible=False)
    style_of, series = looks(rows), dict(zip(rows["unit"], rows["series"], strict=True))
    for label, unit in zip(ax.get_yticklabels(), wide.index, strict=True):
        if unit in series:
            label.set_color(style_of[series[unit]].colour)
    page.finish(figure, [], caption, style)
    return figure


def _table(
    rows: pd.DataFrame, table: pd.DataFrame, slices: list[str], letters: int
) -> tuple[pd.DataFrame, list[str]]:
    """Units by slices, with chance as the last row where it is known; what each row is called."""
    first = rows.drop_duplicates("unit").sort_values(
        ["family", "mixer", "series", "d_model", "state_resident"], key=by_family
    )
    wide = rows.pivot(index="unit", columns="slice", values="accuracy").reindex(
        index=first["unit"], columns=slices
    )
    widths = len(set(rows["d_model"])) > 1
    names = [
        " ".join(filter(None, [row["series"], f"d_model={row['d_model']}" if widths else "", row["knobs"]]))
        for row in first.to_dict("records")
    ]
    guesses = np.array([chance(table, [name]) for name in slices])
    if np.isfinite(guesses).all():
        names.append(GUESS[said(table, slices) == SAID])
        wide.loc[names[-1]] = guesses
    return wide, [textwrap.fill(name, letters) for name in names]
