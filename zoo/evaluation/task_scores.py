"""Scores of a trained model on the examples of its task: by slice, and by how far back the key stands."""

from dataclasses import asdict
from typing import Any

import pandas as pd

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.scores import Tally, rows_at_once
from zoo.evaluation.trained import Trained
from zoo.tasks.base import Segment, Split, Task
from zoo.tasks.batches import BatchStream


class Scores(Evaluation):
    """One row a slice: the columns of `zoo.results.load` from accuracy to rows, and `chance`.

    On the cell's own task they are the record's numbers, to the last bit, on the machine that made it.
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
    """One row a slice, group and value of it: `answers`, `right`, `accuracy`, the share of these, and the
    slice's `chance`."""

    def table(self, trained: Trained) -> pd.DataFrame:
        if not trained.task.groups:
            raise ValueError(
                f"{type(trained.task).__name__} does not tell its answers apart: it has no groups."
            )
        return pd.DataFrame(self._rows(trained))

    def _rows(self, trained: Trained) -> list[dict[str, Any]]:
        return [
            _named(self.split, segment, trained.task) | asdict(kind) | {"accuracy": kind.right / kind.answers}
            for segment, tally in tallies(trained, self.split, self.batch_size)
            for kind in tally.by_group()
        ]


class Distance(Groups):
    """One row a slice and distance: of its `answers` that are read from (distance / 2, distance] tokens back,
    how many are `right`; `accuracy` is right / answers; `chance` is the slice's."""

    def table(self, trained: Trained) -> pd.DataFrame:
        if "distance" not in trained.task.groups:
            raise ValueError(f"{type(trained.task).__name__} reads no answer back: it has no distances.")
        rows = [row for row in self._rows(trained) if row.pop("group") == "distance"]
        return pd.DataFrame(rows).rename(columns={"value": "distance"})


def _named(split: Split, segment: Segment, task: Task) -> dict[str, Any]:
    return named(split, segment) | {"chance": task.chance(segment)}


def tallies(trained: Trained, split: Split, batch_size: int | None) -> list[tuple[Segment, Tally]]:
    """Every example of a split, counted as in the cell's own test; batch_size None: as many rows at once."""
    task, device = trained.task, trained.device
    longest = max(segment.seq_len for part in ("valid", "test") for segment in task.segments(part))
    usual = rows_at_once(trained.cell.optim.eval_batch_size, longest, device.type)
    stream = BatchStream(task, split, batch_size or usual, device)
    counts = [Tally(task.groups) for _ in stream.segments]
    for segment, batch in stream:
        trained.add(counts[segment], batch)
    return list(zip(stream.segments, counts, strict=True))
