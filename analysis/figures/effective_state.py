"""State that a model keeps, reads, uses and would need: four bars a mixer, in scalars of one sequence."""

import textwrap
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from zoo.common.checks import at_least

from ..drawing import page
from ..drawing.style import GREY, INK, PALE, Style, small
from ..records import cells
from ..state_bits.answers import of_task, vocabulary
from ..statistics import bounds, scored
from ..statistics.points import in_words
from .gallery import Picture, Study

NAME = "effective_state"
ABOVE = "above_0.01"  # column: singular values above 0.01 of the largest
BARS = {"kept": PALE, "touched": GREY, "used": "#0072B2", "needed": INK}
LINE = 0.42  # inches for the four bars of a mixer
ABOUT = (
    "State scalars of all layers after a part of a row was read, mean over seeds. Kept: what decoding holds. "
    "Touched: what the next step reads of it. Used: singular values of d(outputs after)/d(inputs before) "
    "above 0.01 of the largest; the tick is the exponential of their entropy. Needed: the least number of "
    "32-bit scalars with which every answer can be right, where a bound is known (docs/bounds.md)."
)


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=effective_state, a panel a slice and cut, most used first."""
    rows = bars(study)
    panels = rows.drop_duplicates(["slice", "cut"]).to_dict("records")
    order = rows.groupby("series", as_index=False).agg(used=("used", "mean")).sort_values("used")
    made = page.new(style.width * len(panels), 1.2 + LINE * len(order))
    for ax, of in zip(made.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        part = rows.loc[(rows["slice"] == of["slice"]) & (rows["cut"] == of["cut"])]
        _panel(ax, part.set_index("series").reindex(order["series"].tolist()), style.letters)
        title = f"{cells.slices_in_words([of['slice']])}, after {of['cut']} tokens"
        ax.set_title(title, fontsize=small())
    handles: page.Handles = [Patch(color=colour, label=kind) for kind, colour in BARS.items()]
    page.finish(made, handles, ABOUT, style, x_label="Scalars", y_label="")
    return Picture(made, rows, [ABOUT, *_sentences(rows)], {})


def bars(study: Study) -> pd.DataFrame:
    """Return one row a point (its name: series), slice and cut: kept, touched, used, entropy, needed, seeds.

    ValueError, one line: there are no answers, they lack the tolerance, or one is impossible.
    """
    sums = {"kept": "resident", "touched": "touched", "used": ABOVE, "entropy": "entropy"}
    whole = of_all_layers(study, sums)
    table = cells.identify(study.table).drop_duplicates("run_id")
    widths = len(set(table["d_model"])) > 1
    table["series"] = [in_words(row, widths) for row in table.to_dict("records")]
    joined = whole.merge(table[["run_id", "series", "seed"]], on="run_id")
    for cell in joined.to_dict("records"):
        at_least(f"extend or state_size of {cell['run_id']} is wrong; its state", cell["kept"], cell["used"])
    joined["needed"] = [_needed(*each) for each in zip(joined["slice"], joined["vocab_size"], strict=True)]
    means = {name: (name, "mean") for name in (*sums, "needed")}
    grouped = joined.groupby(["slice", "cut", "series"], as_index=False)
    return grouped.agg(**means, seeds=("seed", "nunique"), run_ids=("run_id", " ".join))


def of_all_layers(study: Study, sums: Mapping[str, str]) -> pd.DataFrame:
    """Return the sums over layers of the columns `sums`, by new names, of each cell, point, slice and cut,
    and the `vocabulary` of the task, vocab_size.

    ValueError, one line: as `scored.answered`, or the answers lack the tolerance of ABOVE.
    """
    asked = of_task(study.evaluations(NAME), study.table)
    given = scored.answered(asked, study.table, NAME, ["slice", "cut", "layer"])
    if ABOVE not in given:
        raise ValueError("evaluation.tolerances must hold 0.01: ask again with it.")
    named = {name: (column, "sum") for name, column in sums.items()}
    by = ["run_id", "point", "slice", "cut", "vocab_size"]
    return given.assign(vocab_size=vocabulary(given)).groupby(by, as_index=False, dropna=False).agg(**named)


def _needed(name: str, vocab_size: float) -> float:
    load = bounds.load_of(name, vocab_size)
    return float(bounds.least_bits(1.0, load)) / bounds.BITS_OF_A_SCALAR if load else float("nan")


def _panel(ax: Axes, part: pd.DataFrame, letters: int) -> None:
    places = np.arange(len(part))
    for i, (kind, colour) in enumerate(BARS.items()):
        ax.barh(places + 0.3 - 0.2 * i, part[kind], height=0.18, color=colour)
    ax.plot(part["entropy"], places - 0.1, "|", color=INK)
    ax.set_xscale("log")
    ticks = [10**i for i in range(8) if 10**i <= part["kept"].max()]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    ax.grid(visible=True, axis="x")
    ax.set_yticks(places, [textwrap.fill(name, letters) for name in part.index])


def _sentences(rows: pd.DataFrame) -> list[str]:
    return [
        f"{row['series']}, {row['slice']}, after {row['cut']} tokens: {row['kept']:,.0f} kept, "
        f"{row['touched']:,.0f} touched, {row['used']:,.0f} used ({row['used'] / row['kept']:.0%}; by "
        f"entropy {row['entropy']:,.0f}), seeds: {row['seeds']}."
        for row in rows.sort_values("used").to_dict("records")
    ]
