"""Draw which value a model recalls for an overwritten key, against the number of overwrites."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..drawing import draw, legend, page
from ..drawing.figure import span
from ..drawing.style import Look, Style, looks
from ..records import cells
from ..statistics.points import ABOUT
from ..statistics.scored import answered
from ..statistics.seeds import settled, summary
from .gallery import Picture, Study

NAME = "interference"
TASKS = ("mqar_overwrite",)
AXIS = "overwrites"
LATEST, OLDEST, ANOTHER = "its last value", "its first value", "another key's value"


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=interference, with a panel for each kind of answer."""
    answers, rows = shares_of(study)
    blind = answers.loc[answers["kind"] == "0"].groupby(AXIS)["order_blind"].first()
    seeds = span(rows["seeds"].tolist())
    sentences = [
        f"Which value a model recalls for a key that was overwritten this many times: mean of {seeds} "
        f"seed{'s with their interval' * (seeds != '1')}. Dotted: a memory that keeps all values of a key, "
        "but not their order."
    ]
    return Picture(_draw(rows, blind, sentences[0], style), rows, sentences, {})


def shares_of(study: Study) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the answers of a study at the chosen learning rates, and their `shares`."""
    table = cells.identify(study.table)
    answers = answered(study.evaluations(NAME), study.table, NAME, ["slice", "kind"])
    return answers, shares(answers).merge(table.drop_duplicates("point").loc[:, ABOUT], on="point")


def shares(answers: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each point, number of overwrites and kind of answer: the mean over seeds, an interval.

    accuracy: the share of answers that are of this kind.  The only value of a key that was written once
    counts as its last value.
    """
    kind, oldest = answers["kind"].astype(str), answers[AXIS].astype(str)
    what = np.select([kind == "0", kind == oldest, kind == "another"], [LATEST, OLDEST, ANOTHER], "")
    known = answers.assign(what=what).loc[lambda rows: rows["what"] != ""]
    known = known.groupby(["point", "what", AXIS, "run_id"], as_index=False)["share"].mean()  # over slices
    rows = [
        dict(zip(("point", "what", AXIS), key, strict=True))  # pyright: ignore
        | summary(part["share"].to_numpy(float))
        | {"run_ids": " ".join(part["run_id"]), "chance": np.nan}
        for key, part in known.groupby(["point", "what", AXIS])
    ]
    return pd.DataFrame(rows)


def _draw(rows: pd.DataFrame, blind: pd.Series, caption: str, style: Style) -> Any:
    made, axes, _ = page.multiples(3, style, most=3)
    style_of, counts = looks(rows), sorted(set(rows[AXIS].tolist()))
    for ax, what in zip(axes, (LATEST, OLDEST, ANOTHER), strict=True):
        part = rows.loc[rows["what"] == what].assign(place=lambda part: part[AXIS].map(counts.index))
        for number, (name, of_series) in enumerate(part.groupby("series")):
            _line(ax, of_series, style_of[str(name)], 0.03 * (number - len(style_of) / 2))
        if what != ANOTHER:
            shown = [count for count in counts if count or what == LATEST]
            ax.plot([counts.index(n) for n in shown], [blind[n] for n in shown], **draw.CHANCE)
        ax.set_title(what)
        ax.set_ylim(-0.03, 1.06)
        ax.set_xticks(range(len(counts)), [str(count) for count in counts])
    handles = [*legend.series_handles(rows, style.letters), *legend.common_handles(rows, style.letters)]
    page.finish(
        made, handles, caption, style, x_label="Overwrites of each key", y_label="Share of answers",
        bold=legend.bold(rows),
    )  # fmt: skip
    return made


def _line(ax: Axes, rows: pd.DataFrame, look: Look, aside: float) -> None:
    """Draw one series: a line through the means, and their marks, shifted a little from other series so that
    bars can be told apart."""
    rows = rows.sort_values("place").assign(place=lambda rows: rows["place"] + aside)
    means = rows["accuracy"].where(settled(rows))
    ax.plot(rows["place"], means, color=look.colour, linewidth=0.9, alpha=0.7)
    for row in rows.to_dict("records"):
        draw.mark(ax, row, look, "place", area=0.5)
