"""Recall over length and number of pairs: a small map a mixer and setting."""

import textwrap

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure

from analysis import page, scored
from analysis.figure import caption
from analysis.gallery import Picture, Study
from analysis.points import in_words
from analysis.style import Style, small

ROWS, COLUMNS = "seq_len", "num_kv_pairs"
MOST = 24  # maps; of more settings, each series shows its best


def figure(study: Study, style: Style) -> Picture:
    """Cells of one load each are put together in the map of their mixer and setting."""
    rows = scored.alone(study.table)
    absent = [key for key in (ROWS, COLUMNS) if key not in scored.slice_keys(study.table)]
    if absent:
        raise ValueError(f"These slices have no {absent[0]}: there is no map of {ROWS} and {COLUMNS}.")
    rows = rows.assign(unit=[in_words(row) for row in rows.to_dict("records")])
    shown = _best(rows) if len(set(rows["unit"])) > MOST else rows
    left_out = " Of each mixer the setting with the best mean." if len(shown) < len(rows) else ""
    says = [f"Accuracy in per cent at each slice of the test split. {caption(rows)}{left_out}"]
    return Picture(_draw(shown, says[0], style), rows, says, {})


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the unit with the best mean, for each series."""
    means = rows.groupby(["series", "unit"], as_index=False).agg(mean=("accuracy", "mean"))
    best = means.sort_values("mean").drop_duplicates("series", keep="last")["unit"]
    return rows.loc[rows["unit"].isin(best)]


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    units = rows.drop_duplicates("unit")["unit"].tolist()
    lines, columns = page.grid(len(units), most=4 if style.below else 6)
    width = style.width * (1.0 if style.below else 1.9 if columns > 3 else 1.3)
    lengths, widths = len(set(rows[ROWS])), len(set(rows["d_model"])) > 1
    figure = page.new(width, 0.5 + lines * (0.6 + 0.25 * lengths))
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for place, (ax, unit) in enumerate(zip(grid, units, strict=False)):
        _map(ax, rows.loc[rows["unit"] == unit], int(width / columns * 110 / small()), widths)
        ax.set_ylabel("Tokens" if place % columns == 0 else "", fontsize=small())
        ax.set_xlabel("Pairs" if place >= len(units) - columns else "", fontsize=small())
    for ax in grid[len(units) :]:
        ax.remove()
    used = list(grid[: len(units)])
    _bar(figure.colorbar(grid[0].collections[0], ax=used, shrink=0.7, aspect=30, pad=0.01))
    page.finish(figure, [], caption, style)
    return figure


def _map(ax: Axes, rows: pd.DataFrame, characters: int, widths: bool) -> None:
    """widths: maps differ in d_model."""
    wide = rows.pivot(index=ROWS, columns=COLUMNS, values="accuracy").sort_index(ascending=False)
    seaborn.heatmap(
        100 * wide, ax=ax, vmin=0, vmax=100, cmap="cividis", annot=True, fmt=".0f", cbar=False,
        linewidths=0.8, annot_kws={"fontsize": small() - 0.7},
    )  # fmt: skip
    ax.tick_params(length=0)
    ax.set_yticklabels(ax.get_yticklabels(), rotation=0)
    ax.grid(visible=False)
    row = rows.iloc[0]
    below = " ".join(filter(None, [f"d_model={row['d_model']}" if widths else "", row["knobs"]]))
    lines = [*textwrap.wrap(row["series"], characters), *textwrap.wrap(below, characters)]
    ax.set_title("\n".join(lines), fontsize=small())


def _bar(bar: Colorbar) -> None:
    bar.set_label("Accuracy (per cent)", fontsize=small())
