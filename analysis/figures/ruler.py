"""RULER's numbers: the means of its five groups and of all eleven tasks, a panel a mixer, a mark a length."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoo.tasks.ruler.questions import GROUPS, QUESTIONS, group_means

from ..drawing import page
from ..drawing.style import INK, Style, by_family, looks, small
from ..records import cells
from ..statistics import learning_rate
from ..statistics.points import ABOUT, in_words
from ..statistics.seeds import summary
from .gallery import Picture, Study

TASKS = ("ruler_lite",)
NAMES = list(GROUPS)
MARKS = "osD^v"  # markers of the lengths, from the shortest
SCORES = ("accuracy", "exact_rows")


def figure(study: Study, style: Style) -> Picture:
    """Draw cells that were tested on all eleven tasks."""
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    tested = table.loc[table["split"] == "test"].merge(chosen[["point", "lr"]], on=["point", "lr"])
    by_length = tested.groupby(["point", "seq_len"])
    rows = [row for (point, n), part in by_length for row in _of_length(str(point), int(n), part)]
    about = table.drop_duplicates("point")[ABOUT]
    rows = pd.DataFrame(rows).drop(columns="interval").merge(about, on="point")
    rows = rows.sort_values(["family", "series", "point", "seq_len", "place"], key=by_family, kind="stable")
    seeds = " or ".join(map(str, sorted(set(rows["seeds"].tolist()))))
    sentences = [
        "Task ruler_lite, by length. Share of answer tokens that are right, teacher-forced. Average: over "
        f"the {len(QUESTIONS)} tasks, not the groups. Mean of {seeds} seeds with min to max. exact_rows in "
        "the table: answers with every token right, as greedy decoding would write them."
    ]
    return Picture(_draw(rows, sentences[0], style), rows, sentences, {})


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    points = rows.drop_duplicates("point").to_dict("records")
    lengths = sorted(set(rows["seq_len"].tolist()))
    mark_of = dict(zip(lengths, MARKS * len(lengths), strict=False))
    shifts = dict(zip(lengths, np.linspace(-0.2, 0.2, len(lengths)) * (len(lengths) > 1), strict=True))
    figure, axes, _ = page.multiples(len(points), style, most=style.across)
    style_of = looks(rows)
    for ax, point in zip(axes, points, strict=True):
        colour = style_of[point["series"]].colour
        for length, part in rows.loc[rows["point"] == point["point"]].groupby("seq_len"):
            around = np.abs(part[["low", "high"]].to_numpy(float).T - part["accuracy"].to_numpy(float))
            ax.errorbar(
                part["place"] + shifts[length], part["accuracy"], around, fmt=mark_of[length],
                color=colour, markersize=style.marker, elinewidth=1.0,
            )  # fmt: skip
            ax.hlines(part["chance"], part["place"] - 0.4, part["place"] + 0.4, color=INK, linestyle=":")
        ax.set_title(in_words(point), fontsize=small(), color=colour)
        ax.set(ylim=(-0.03, 1.03))
        ax.set_xticks(range(1, len(NAMES) + 1), NAMES, rotation=45, ha="right")
    handles: page.Handles = [Line2D([], [], color=INK, linestyle=":", label="chance: the best guess")]
    handles += [
        Line2D([], [], color=INK, linestyle="", marker=mark, label=f"{length} tokens")
        for length, mark in mark_of.items()
    ]
    page.finish(figure, handles, caption, style, y_label="Test accuracy")
    return figure


def _of_length(point: str, length: int, part: pd.DataFrame) -> list[dict]:
    """Return one row a group of tasks, with the mean over its tasks in each seed and over the seeds."""
    seeds = {name: _by_group(part, name) for name in SCORES}
    guess = part.drop_duplicates("subtask").set_index("subtask")["chance"].to_dict()
    return [
        {"point": point, "seq_len": length, "group": group, "place": place}
        | summary(seeds["accuracy"][group].to_numpy(float))
        | {"chance": chance, "exact_rows": seeds["exact_rows"][group].mean()}
        for place, (group, chance) in enumerate(group_means(guess).items(), 1)
    ]


def _by_group(part: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return a table with a row a seed and a column a group of tasks; a diverged seed scores 0."""
    known = part.assign(**{score: part[score].fillna(0.0)})
    wide = known.pivot(index="run_id", columns="subtask", values=score)
    return pd.DataFrame([group_means(row) for row in wide.to_dict("records")])
