"""Score a trained model on the examples of its task, by slice, by group and by distance."""

from dataclasses import asdict
from typing import Any

import pandas as pd

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.scores import Tally, rows_at_once
from zoo.evaluation.trained import Trained
from zoo.tasks.around import inmost
from zoo.tasks.base import Segment, Split, Task
from zoo.tasks.batches import BatchStream, longest


class Scores(Evaluation):
    """A table of one row a slice: the columns of `zoo.results.load` from accuracy to rows, and `chance`.

    On the cell's own task, and on the machine that made the record, they equal its numbers to the last bit.
    split: of the task.  batch_size: rows at once; None: as in the cell's own test.
    """

    def __init__(self, *, split: Split, batch_size: int | None) -> None:
        if batch_size is not None:
            at_least("evaluation.batch_size", batch_size, 1)
        self.split: Split = split
        self.batch_size = batch_size

    def table(self, trained: Trained) -> pd.DataFrame:
        rows = [
            _named(self.split, segment, trained.task) | asdict(tally.score())
            for segment, tally in tallies(trained, self.split, self.batch_size)
        ]
        return pd.DataFrame(rows)


class Groups(Scores):
    """A table of one row a slice, group and value of the group: `answers`, `right`, `accuracy` (right /
    answers), and the slice's `chance`."""

    def table(self, trained: Trained) -> pd.DataFrame:
        if not trained.task.groups:
            raise ValueError(
                f"{type(inmost(trained.task)).__name__} does not tell its answers apart: it has no groups."
            )
        return pd.DataFrame(self._rows(trained))

    def _rows(self, trained: Trained) -> list[dict[str, Any]]:
        return [
            _named(self.split, segment, trained.task) | asdict(kind) | {"accuracy": kind.right / kind.answers}
            for segment, tally in tallies(trained, self.split, self.batch_size)
            for kind in tally.by_group()
        ]


class Distance(Groups):
    """A table of one row a slice and distance: the `answers` that are read from (distance / 2, distance]
    tokens back, and how many are `right`; `accuracy` is right / answers; `chance` is the slice's."""

    def table(self, trained: Trained) -> pd.DataFrame:
        if "distance" not in trained.task.groups:
            name = type(inmost(trained.task)).__name__
            raise ValueError(f"{name} reads no answer back: it has no distances.")
        rows = [row for row in self._rows(trained) if row.pop("group") == "distance"]
        return pd.DataFrame(rows).rename(columns={"value": "distance"})


def _named(split: Split, segment: Segment, task: Task) -> dict[str, Any]:
    return named(split, segment) | {"chance": task.chance(segment)}


def tallies(trained: Trained, split: Split, batch_size: int | None) -> list[tuple[Segment, Tally]]:
    """Return each segment of a split with its tally; batch_size None: as in the cell's own test."""
    task, device = trained.task, trained.device
    usual = rows_at_once(trained.cell.optim.eval_batch_size, longest(task, "valid", "test"), device.type)
    stream = BatchStream(task, split, batch_size or usual, device)
    counts = [Tally(task.groups) for _ in stream.segments]
    for segment, batch in stream:
        trained.add(counts[segment], batch)
    return list(zip(stream.segments, counts, strict=True))
