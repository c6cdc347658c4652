"""One picture over all tasks: what each mixer scores on each, at about equal state, with ranks.

    python -m analysis.field docs/results/mini_*.zip --out docs/figures/field

Writes OUT.png, OUT.csv and OUT.txt.  A column is what cells were asked (a task, or one setting of it): the
mean of its test slices.  A row is a mixer; of its points the largest with at most --state scalars is taken,
so no score is chosen by its score.  Ranks are among these; attention, which keeps every token, has none, nor
has a point at chance.
There is no mean rank: what a mixer is compared with differs from task to task.
"""

import re
import textwrap
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.common.terminal import command, command_parser

from .drawing import page
from .drawing.figure import tuned
from .drawing.style import SCREEN, Style, by_family, looks, rc, small
from .figures import gallery
from .figures.heat_map import TESTS
from .statistics import scored
from .statistics.chance import above

STATE = 2700  # scalars: the smallest points of all mixers but attention have fewer
ALL = "attention"  # keeps all, and takes no part in ranks
COLUMN = 0.09  # of a page's width
COLUMNS = ["column", "series", "mixer", "family", "knobs", "state_resident", "accuracy", "low", "high"]
COLUMNS += ["seed_accuracies", "run_ids", "chance", "rank", "of"]


def main(arguments: list[str] | None = None) -> int:
    parser = command_parser("analysis.field", __doc__)
    parser.add_argument("results", nargs="+", type=Path, help="folders of records, or archives of them")
    parser.add_argument("--out", type=Path, default=Path("field"), help="the picture, without .png")
    parser.add_argument("--state", type=int, default=STATE, help=f"scalars, at most (default: {STATE})")
    parser.add_argument("--where", default="", help='keep some cells only, such as "d_model == 64"')
    options = parser.parse_intermixed_args(arguments)
    studies = [gallery.Study(path, options.where) for path in options.results]
    return gallery.command(lambda: picture(studies, options.state, SCREEN), options.out)


def picture(studies: list[gallery.Study], state: int, style: Style) -> gallery.Picture:
    """ValueError: no mixer has so little state."""
    points = pd.concat([columns_of(study) for study in studies], ignore_index=True)
    rows = ranked(points, state)
    if rows.empty or set(rows["mixer"]) == {ALL}:
        raise ValueError(f"no mixer has at most {state} scalars: raise --state.")
    sentences = [
        "Accuracy in per cent, mean of test slices and seeds; below it the lowest and the highest seed, "
        f"and the rank among mixers with at most {state:,} scalars of state, of each its largest such point. "
        "Empty: not trained. Attention keeps every token, and points at chance know nothing: they have no "
        f"rank. Toy scale. {tuned(points)}",
    ]
    with matplotlib.rc_context(rc(style)):
        return gallery.Picture(_draw(rows, sentences[0], style), rows, sentences, {})


def columns_of(study: gallery.Study) -> pd.DataFrame:
    """One row a point and load of a study; column: the task, and what tells the load from others of it."""
    rows = scored.means(study.table)
    loads = [TESTS.sub("", load) for load in rows["load"]]
    words = [re.sub(r"(^|, )task=\w+", "", load).strip(", ").replace("=", " ") for load in loads]
    names = [" ".join(filter(None, pair)) for pair in zip(rows["task"], words, strict=True)]
    return rows.assign(column=names)


def ranked(rows: pd.DataFrame, state: int) -> pd.DataFrame:
    """Keep the point of each series and column with the most state, at most so much, with its rank and of how
    many above chance."""
    fits = rows.loc[(rows["state_resident"] <= state) | (rows["mixer"] == ALL)]
    largest = fits.sort_values("state_resident", kind="stable").drop_duplicates(
        ["series", "column"], keep="last"
    )
    compared = largest["accuracy"].where((largest["mixer"] != ALL) & above(largest))
    largest = largest.assign(
        rank=compared.groupby(largest["column"]).rank(ascending=False, method="min"),
        of=compared.groupby(largest["column"]).transform("count"),
    )
    return largest.sort_values(["family", "series", "column"], key=by_family, kind="stable")[COLUMNS]


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    series, columns = rows["series"].drop_duplicates().tolist(), rows["column"].drop_duplicates().tolist()
    wide = rows.pivot(index="series", columns="column", values="accuracy").reindex(series)[columns]
    guess = rows.drop_duplicates("column").set_index("column")["chance"].reindex(columns)
    wide.loc["chance"] = guess.to_numpy(float)
    figure = page.new(style.width * max(1.0, 0.7 + COLUMN * len(columns)), 1.5 + 0.38 * len(wide))
    ax = figure.subplots()
    seaborn.heatmap(
        100 * wide, ax=ax, vmin=0, vmax=100, cmap="cividis", linewidths=0.8,
        cbar_kws={"label": "Accuracy (per cent)", "aspect": 30, "pad": 0.02},
    )  # fmt: skip
    for row in rows.to_dict("records"):
        _write(ax, columns.index(row["column"]), series.index(row["series"]), _cell(row), row["accuracy"])
    for place, value in enumerate(guess):
        _write(ax, place, len(series), f"{100 * value:.0f}", value)
    heads = [textwrap.fill(name.replace("_", " "), 8, break_long_words=False) for name in columns]
    ax.set_xticklabels(heads, rotation=0)
    ax.set_yticklabels([textwrap.fill(str(name), style.letters) for name in wide.index], rotation=0)
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0, labelsize=small())
    ax.grid(visible=False)
    style_of = looks(rows)
    for label, name in zip(ax.get_yticklabels(), series, strict=False):
        label.set_color(style_of[name].colour)
    page.finish(figure, [], caption, style)
    return figure


def _cell(row: dict) -> str:
    rank = "" if np.isnan(row["rank"]) else f"\n{row['rank']:.0f} of {row['of']:.0f}"
    spread = "" if np.isnan(row["low"]) else f"\n{100 * row['low']:.0f} to {100 * row['high']:.0f}"
    return f"{100 * row['accuracy']:.0f}{spread}{rank}"


def _write(ax: Axes, x: int, y: int, text: str, value: float) -> None:
    colour = "white" if value < 0.6 else "#222222"
    ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=small() - 1, color=colour)


if __name__ == "__main__":
    command(main)
