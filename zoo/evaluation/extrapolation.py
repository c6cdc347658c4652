"""Measure a trained model beyond its training: longer rows at the same load, more load at the same length."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from zoo.common.checks import at_least
from zoo.config.bounds import refusal
from zoo.evaluation.base import Evaluation
from zoo.evaluation.scores import rows_together
from zoo.evaluation.task_scores import tallies
from zoo.evaluation.trained import Trained
from zoo.tasks.around import inmost
from zoo.tasks.mixture import Load, Mixture

HOLDS = {"holds_90": 0.9, "holds_99": 0.99}


class Extrapolation(Evaluation):
    """A table of one row for each of the longest training segments and each doubling of one setting.

    varied: the doubled setting, "seq_len" or the task's load (if the task has one, and while it fits the
    length).  Then come the slice, and `accuracy` to `rows` and `chance` as in `scores`.  holds_90, holds_99:
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
        series = [
            pd.DataFrame([{"varied": key} | self._row(trained, task, load) for load in loads])
            for key, loads in self._series(task)
        ]
        return pd.concat([_held(frame) for frame in series], ignore_index=True)

    def _series(self, task: Mixture) -> Iterator[tuple[str, list[Load]]]:
        trained_on = task.loads("train")
        longest = max(load.seq_len for load in trained_on)
        for key in filter(None, ("seq_len", task.load)):
            for load in (load for load in trained_on if load.seq_len == longest):
                value = getattr(load, key)
                grown = [replace(load, **{key: value * 2**i}) for i in range(self.doublings + 1)]
                yield (
                    key,
                    [each for each in grown if task.fits(each) and not refusal(key, getattr(each, key))],
                )

    def _row(self, trained: Trained, task: Mixture, load: Load) -> dict[str, Any]:
        task = task.tested_on([replace(load, num_examples=self.rows)])
        [segment] = task.segments("test")
        known = segment.slice | {"chance": task.chance(segment)}
        if refused := trained.refuses(segment.seq_len):
            return known | {"rows": 0, "refused": refused}
        [(_, tally)] = tallies(replace(trained, task=task), "test", rows_together(segment.seq_len))
        return known | asdict(tally.score()) | {"refused": ""}


def _held(series: pd.DataFrame) -> pd.DataFrame:
    """Add the columns holds_90 and holds_99 to the rows of one series."""
    varied = series[series["varied"].iloc[0]]
    reach = {name: max(varied[series["accuracy"] >= least], default=0) for name, least in HOLDS.items()}
    return series.assign(**reach)
