"""Accuracy on longer rows and larger loads than in training: a panel for each mixer and what grows."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..drawing.by_series import Axis, draw
from ..drawing.style import GREY, Style
from ..records import cells
from ..statistics.chance import OTHERWISE
from ..statistics.points import ABOUT
from ..statistics.scored import answered
from ..statistics.seeds import summary, written
from .gallery import Picture, Study

NAME = "extrapolation"
LENGTH = "seq_len"
AXIS = Axis("times", "Times what training had", text=lambda times: f"{times:g}x")
HOLDS = {"holds_90": 0.9, "holds_99": 0.99}


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=extrapolation."""
    table = cells.identify(study.table)
    with_load = any(isinstance(axis, str) for axis in table["load_axis"])
    load = cells.load_axis(table) if with_load else ""  # "": only the length is varied
    given = study.evaluations(NAME)
    keys = [key for key in ("varied", LENGTH, load) if key in given]
    answers = _at_the_largest_load(answered(_once(given), study.table, NAME, keys), load)
    rows = [_at(key, at) for key, at in _parts(answers, ["point", "varied", "times"])]
    about = table.drop_duplicates("point").loc[:, ABOUT]
    rows = pd.DataFrame(rows).drop(columns="interval").merge(about, on="point")
    reach = _reach(answers).merge(about.loc[:, ["point", "series", "d_model", "knobs"]], on="point")
    rows["guess"] = OTHERWISE
    more = {load: f"more {cells.axis_in_words(load).lower()}", LENGTH: "longer rows"}
    rows["series"] = rows["series"] + ", " + rows["varied"].map(more.__getitem__)
    seeds = " or ".join(map(str, sorted(set(rows["seeds"].tolist()))))
    ends = any(isinstance(why, str) and why for why in answers["refused"])
    refused = " Where a line ends, the model takes no longer rows." if ends else ""
    sentences = [
        f"Task {table['task'].iloc[0]}: accuracy {_grown(answers, load)}. Mean of "
        f"{seeds} seeds with min to max; grey: .9 and .99. Darker: more state.{refused}",
        *(_reach_in_words(row) for row in reach.to_dict("records")),
    ]
    handles = [Line2D([], [], color=GREY, linewidth=0.6, label="accuracy .9 and .99")]
    drawn = draw(rows, AXIS, "Accuracy", sentences[0], style, handles=list(handles), marks=_levels)
    return Picture(drawn, rows, sentences, {"reach": reach})


def _once(given: pd.DataFrame) -> pd.DataFrame:
    """Keep one of equal rows: series whose starts are doublings of each other share them (4, 8; 8, 16)."""
    same = [name for name in given if name not in HOLDS]
    return given.sort_values([*HOLDS], kind="stable").drop_duplicates(same, keep="last").sort_index()


def _at_the_largest_load(answers: pd.DataFrame, load: str) -> pd.DataFrame:
    """Keep only the largest load that training had at the longest length, and add the column `times`."""
    parts = []
    for (run_id, varied), part in _parts(answers, ["run_id", "varied"]):
        if varied == LENGTH and load in part:
            part = part.loc[part[load] == part[load].max()]
        elif varied == load:
            longer = answers.loc[(answers["run_id"] == run_id) & (answers["varied"] == LENGTH)]
            starts = part.loc[part[LENGTH] == part[LENGTH].min()] if longer.empty else longer
            part = part.loc[part[load] >= starts[load].max()].sort_values(LENGTH, kind="stable")
            part = part.drop_duplicates(load)
        parts.append(part.assign(times=part[varied] / part[varied].min()))
    return pd.concat(parts, ignore_index=True)


def _parts(answers: pd.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    for key, part in answers.groupby(keys):
        yield cast(tuple[Any, ...], key), part


def _at(key: tuple[Any, ...], at: pd.DataFrame) -> dict:
    """Return one point of a line: a summary of the seeds' accuracies, each a mean over its answers there."""
    scores = np.array([part["accuracy"].mean() for _, part in at.groupby("run_id")], dtype=float)
    named = dict(zip(("point", "varied", "times"), key, strict=True))
    return named | summary(scores) | {"chance": at["chance"].mean()}


def _reach(answers: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each point and varied setting: the largest value at which each seed holds a level."""
    rows = [
        {"point": point, "varied": varied}
        | {
            name: written(np.sort([max(held[name].tolist()) for _, held in part.groupby("run_id")]))
            for name in HOLDS
        }
        for (point, varied), part in _parts(answers, ["point", "varied"])
    ]
    return pd.DataFrame(rows)


def _reach_in_words(row: dict) -> str:
    held = ", ".join(f"{level:g}: {row[name]}" for name, level in HOLDS.items())
    who = " ".join(filter(None, (row["series"], row["knobs"])))
    return f"{who}: the largest {row['varied']} of each seed with an accuracy of {held} (0: none)."


def _grown(answers: pd.DataFrame, load: str) -> str:
    """Return what was made longer or larger than in training, with the value that training had."""
    starts = {varied: f"{part[varied].min():g}" for varied, part in answers.groupby("varied")}
    if LENGTH not in starts:
        return f"at larger loads than in training ({starts[load]}), in rows that are longer with them"
    loads = f" and at larger loads ({starts[load]}, at equal length)" if load in starts else ""
    return f"on longer rows than in training ({starts[LENGTH]} tokens, at equal load){loads}"


def _levels(ax: Axes, series: pd.DataFrame, shade_of: dict[str, str]) -> None:
    for level in HOLDS.values():
        ax.axhline(level, color=GREY, linewidth=0.6, zorder=1)
