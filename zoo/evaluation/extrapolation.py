"""Measure a trained model beyond its training: longer rows at the same load, more load at the same length."""

from dataclasses import asdict, replace
from math import nan
from typing import Any

import pandas as pd

from zoo.common.checks import at_least
from zoo.config.bounds import out_of_bounds
from zoo.evaluation.base import Evaluation
from zoo.evaluation.scores import rows_together
from zoo.evaluation.task_scores import tallies
from zoo.evaluation.trained import Trained
from zoo.results.outcome import Score
from zoo.tasks.around import inmost
from zoo.tasks.mixture import Load, Mixture

HOLDS = {"holds_90": 0.9, "holds_99": 0.99}


class Extrapolation(Evaluation):
    """A table of one row for each of the longest training segments and each doubling of one setting.

    varied: the doubled setting, "seq_len" or the task's load (if the task has one, and while it fits the
    length).  Where the length of a row follows from its load, only the load is varied, and rows grow with it.
    Then come the slice, and `accuracy` to `rows` and `chance` as in `scores`.  holds_90, holds_99:
    the largest value of the varied setting with an accuracy of .9 or .99, 0 if there is none; equal in all
    rows of a series.  refused: why the model cannot take such a row (for example, it has too few positions;
    the row's numbers are then NaN); else "".

    doublings: how often to double, up to the longest row that a task may have.  rows: examples of each."""

    def __init__(self, *, doublings: int, rows: int) -> None:
        at_least("evaluation.doublings", doublings, 0)
        at_least("evaluation.rows", rows, 1)
        self.doublings, self.rows = doublings, rows

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return the scores of each length and each load, from the longest training segments on."""
        task = inmost(trained.task)
        if not isinstance(task, Mixture):
            raise ValueError(f"{type(task).__name__} has no segments that could be made longer.")
        longest = max(load.seq_len for load in task.loads("train"))
        starts = [load for load in task.loads("train") if load.seq_len == longest]
        keys = [key for key in ("" if task.length_follows else "seq_len", task.load) if key]
        series = [(key, self._grown(task, load, key)) for key in keys for load in starts]
        if self.doublings and all(len(loads) < 2 for _, loads in series):
            what = " or ".join(f"{key} (={getattr(starts[0], key)})" for key in keys)
            raise ValueError(f"{type(task).__name__} allows no doubling of {what}: there is nothing to ask.")
        tables = [
            pd.DataFrame([{"varied": key} | self._row(trained, task, load) for load in loads])
            for key, loads in series
        ]
        return pd.concat([_held(frame) for frame in tables], ignore_index=True)

    def _grown(self, task: Mixture, load: Load, key: str) -> list[Load]:
        """Return the load and its doublings of `key` that the task and the bounds of every config allow."""
        grown, start = [], replace(load, seq_len=0) if task.length_follows else load
        for i in range(self.doublings + 1):
            try:
                more = replace(start, **{key: getattr(start, key) * 2**i})
                grown += task.tested_on([more]).loads("test")
            except ValueError:  # the task has no such rows
                continue
        return [each for each in grown if not out_of_bounds(each.slice())]

    def _row(self, trained: Trained, task: Mixture, load: Load) -> dict[str, Any]:
        task = task.tested_on([replace(load, num_examples=self.rows)])
        [segment] = task.segments("test")
        known = segment.slice | {"chance": task.chance(segment)}
        if refused := trained.refuses(segment.seq_len):
            return known | asdict(Score(nan, nan, nan, nan, 0, 0)) | {"refused": refused}
        [(_, tally)] = tallies(replace(trained, task=task), "test", rows_together(segment.seq_len))
        return known | asdict(tally.score()) | {"refused": ""}


def _held(series: pd.DataFrame) -> pd.DataFrame:
    """Add the columns holds_90 and holds_99 to the rows of one series."""
    varied = series[series["varied"].iloc[0]]
    reach = {name: max(varied[series["accuracy"] >= least], default=0) for name, least in HOLDS.items()}
    return series.assign(**reach)
