"""Write what trained cells of a block were asked: accuracy lost to rounding, state used, pairs, reach."""

from collections.abc import Iterator

import pandas as pd

from ..figures.gallery import Study
from ..figures.load_distance import NAME, in_numbers
from ..figures.rounded import KNOWN, rounded
from ..records import cells
from ..state_bits.answers import EXACT
from ..statistics import load_distance, scored
from .cards import used_scalars
from .markdown import head, row

OF_BITS = """
**The same in 4 bits.** Accuracy lost with the state rounded after every token, one scale for each key channel
([how](bits.md)); of one cell each, on the slices where it has 0.5 or more in fp32 (blank: there is none)."""

OF_USE = """
**Used.** How many scalars of the state matter half way through the fullest rows of training
([effective_state](evaluation.md#ask-it-something-new)), all layers together; of one cell each.  Beside what
is kept, touched and needed, in `mqar`: [four bars a mixer](figures/atlas_block/effective_state.png)."""

OF_LOAD = """
**How much, and for how long** (`mqar`). How many pairs are recalled with 0.9 when nothing stands between
pairs and questions, and the half-life: the distance in tokens at which the fewest pairs have lost half of
their lead over a guess ([how](findings.md#too-much-to-hold-or-too-long-ago-mini_load_distance)); of one cell
each. In brackets: 95 % over its rows."""

OF_LENGTH = """
**How much longer.** How many times as long as the longest rows of training a row may be, at the same load,
with 0.9 still right ([extrapolation](evaluation.md#ask-it-something-new)); of one cell each, asked up to 16
times (blank: less than 0.9 where it was trained)."""


def lost(study: Study, names: pd.Index, tasks: list[str]) -> Iterator[str]:
    """Yield the lines on the accuracy that 4 bits cost each mixer, of each task that it knows."""
    try:
        rows = rounded(study, least=KNOWN).dropna(subset="int4").set_index("point")
    except (ValueError, KeyError):  # there are no answers
        return
    losses = pd.Series(rows[EXACT] - rows["int4"])
    yield f"{OF_BITS}\n"
    yield from _table(_by_task(study, losses, names, tasks), 2)


def used(study: Study, names: pd.Index, scores: pd.DataFrame) -> Iterator[str]:
    """Yield the lines on the scalars of its state that each mixer uses, and whether that helps it."""
    scalars = pd.Series(used_scalars(study), dtype=float)
    if len(scalars):
        yield f"{OF_USE}\n"
        by_task = _by_task(study, scalars, names, [*scores])
        yield from _table(by_task, 0)
        rho = by_task.drop(index="median").corrwith(scores, method="spearman").dropna()
        words = ", ".join(f"{task} {value:.2f}" for task, value in rho.items())
        yield f"\nSpearman's correlation of used scalars with the scores above, over these mixers: {words}."


def held(study: Study, names: pd.Index) -> Iterator[str]:
    """Yield the lines on the pairs that each mixer holds and its half-life."""
    try:
        given = study.evaluations(NAME)
    except ValueError:  # there are no answers
        return
    points = cells.named(study.table).drop_duplicates("point")
    of_mqar = points.loc[points["task"] == "mqar", ["point", "series"]]
    answers = scored.answered(given, study.table, NAME, load_distance.GRID).merge(of_mqar, on="point")
    of_series = dict(list(answers.groupby("series")))
    yield f"{OF_LOAD}\n"
    yield from head(["mixer", "pairs held", "half-life"])
    for name in names.intersection(pd.Index(of_series), sort=False):
        [limits] = load_distance.limits(of_series[name]).to_dict("records")
        pairs, half_life = in_numbers(limits, of_series[name])
        yield row([str(name), pairs.removeprefix("holds "), half_life.removeprefix("half-life ")])


def longer(study: Study, names: pd.Index, tasks: list[str]) -> Iterator[str]:
    """Yield the lines on how long rows may grow until each mixer fails, of each task that it knows."""
    try:
        given = study.evaluations("extrapolation")
    except ValueError:  # there are no answers
        return
    points = study.table.drop_duplicates("run_id")[["run_id", "point"]]
    of_point = given.loc[given["varied"] == "seq_len"].merge(points).groupby("point")
    times = of_point["holds_90"].min() / of_point["seq_len"].min()
    yield f"{OF_LENGTH}\n"
    yield from _table(_by_task(study, times.loc[times > 0], names, tasks).iloc[:-1], 0)


def _by_task(study: Study, values: pd.Series, names: pd.Index, tasks: list[str]) -> pd.DataFrame:
    """Return values by point as a table of mixers by the tasks that have any, with the medians below."""
    points = cells.named(study.table).drop_duplicates("point").set_index("point")[["series", "task"]]
    rows = points.assign(value=values)
    wide = rows.pivot_table(index="series", columns="task", values="value")
    wide = wide.reindex(names, columns=tasks).dropna(axis=1, how="all")
    return pd.concat([wide, wide.median().to_frame("median").T])


def _table(values: pd.DataFrame, digits: int) -> Iterator[str]:
    yield from head(["mixer", *values.columns])
    for name, numbers in values.iterrows():
        words = ["" if pd.isna(number) else f"{round(number, digits) + 0:,.{digits}f}" for number in numbers]
        yield row([str(name), *words])
