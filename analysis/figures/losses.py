"""Training loss against steps, on a logarithmic scale: a panel a mixer, a line a cell, a dash a setting."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ..drawing import page
from ..drawing.curves import DASHES, training_losses
from ..drawing.figure import subject, tuned
from ..drawing.style import Style, by_family, family_colours, small
from ..records import cells
from ..statistics import learning_rate
from .gallery import Picture, Study

MOST_NAMES = 6  # most settings of a panel that its legend names


def figure(study: Study, style: Style) -> Picture:
    """Draw one load, each point at its chosen learning rate, with a line for every seed."""
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    about = _points(table, chosen)
    drawn = table.drop_duplicates("run_id").merge(chosen[["point", "lr"]], on=["point", "lr"])
    names = about[["point", "unit", "label", "mixer", "family", "series", "d_model", "knobs", "lr", "order"]]
    rows = training_losses(study.metrics).merge(drawn[["run_id", "point", "seed"]], on="run_id")
    rows = rows.merge(names, on="point").sort_values(["order", "seed", "step"], ignore_index=True)
    if rows.empty:
        raise ValueError("No cell has a training loss on record: there is no curve to draw.")
    sentences = [f"Each point: the mean since the one before; a line a seed. {subject(about)} {tuned(about)}"]
    made = _draw(rows, sentences[0], style)
    return Picture(made, rows.drop(columns=["point", "label", "family", "unit", "order"]), sentences, {})


def _points(table: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """Return one row a point, in the order of a legend: by family, and from small to large."""
    about = chosen.merge(table.drop_duplicates("point").drop(columns="lr"), on="point")
    about = about.sort_values(["family", "mixer", "series", "d_model", "state_resident", "point"])
    return about.assign(unit=_units(about), order=range(len(about)))


def _units(about: pd.DataFrame) -> list[str]:
    """Return what sets each point apart within its mixer: "precision=bf16-mixed", "d_model=64 window=9"."""
    widths = about.groupby("label")["d_model"].transform(lambda values: values.nunique() > 1).tolist()
    units = []
    for row, wide in zip(about.to_dict("records"), widths, strict=True):
        setting = row["series"].removeprefix(row["label"]).removeprefix(", ")
        units.append(" ".join(filter(None, (setting, f"d_model={row['d_model']}" * wide, row["knobs"]))))
    return units


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    first = rows.drop_duplicates("label").sort_values(["family", "mixer"], key=by_family)
    made, axes, _ = page.multiples(len(first), style, most=2 if style.below else 4)
    colours = family_colours(rows)
    for ax, row in zip(axes, first.to_dict("records"), strict=True):
        _panel(ax, rows.loc[rows["label"] == row["label"]], colours[row["family"]])
    page.finish(made, [], caption, style, x_label="Training step", y_label="Training loss")
    return made


def _panel(ax: Axes, rows: pd.DataFrame, colour: str) -> None:
    """Draw all settings of one mixer in alternating dashes, and a legend if they are few."""
    label = rows["label"].iloc[0]
    units = list(dict.fromkeys(rows["unit"]))
    for number, unit in enumerate(units):
        for _, line in rows.loc[rows["unit"] == unit].groupby("run_id"):
            ax.plot(
                line["step"], line["loss"], color=colour, linewidth=0.9, alpha=0.8,
                linestyle=DASHES[number % len(DASHES)], label=unit,
            )  # fmt: skip
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_title(label, fontsize=small(), color=colour)
    if 1 < len(units) <= MOST_NAMES:
        named = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        ax.legend(list(named.values()), list(named), handlelength=3)
