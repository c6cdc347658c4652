"""List some rows of the task: what was asked where, the right answer, and what the model answered."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.trained import Trained
from zoo.tasks.base import IGNORED, Batch, Split, sources
from zoo.tasks.groups import Distance


class Answers(Evaluation):
    """A table of one row a scored place: `example` and `place` identify the place, `target` is the right
    token, `answer` the model's, `right` 1 or 0.  source: the place that the answer is read from; distance:
    how far before; both are empty if it is read from no place.  Each other group of the task has a column.
    tokens: the whole row, shown at its first place.

    Cells with the same task and seed get the same places, so their answers can be compared side by side.

    split: of the task.  rows: the most rows of each slice.  places: the most scored places of all slices, the
    same number of each slice; if a row has more than its share, its places are spread over the row evenly.
    """

    def __init__(self, *, split: Split, rows: int, places: int) -> None:
        at_least("evaluation.rows", rows, 1)
        at_least("evaluation.places", places, 1)
        self.split: Split = split
        self.rows, self.places = rows, places

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return the answers at the first rows of each slice."""
        count = len(trained.task.segments(self.split))
        return pd.DataFrame(row for index in range(count) for row in self._rows(trained, index, count))

    def _rows(self, trained: Trained, index: int, slices: int) -> Iterator[dict[str, Any]]:
        segment = trained.task.segments(self.split)[index]
        trained.model.check_length(segment.seq_len)
        share = max(1, self.places // slices)
        examples = range(min(self.rows, segment.num_examples, share))
        batch = trained.task.sample(self.split, index, examples, trained.device)
        best = trained.answered(batch)[1].view_as(batch.answers)
        read = sources(trained.task, batch)
        for example in examples:
            places = _spread((batch.answers[example] != IGNORED).nonzero().flatten(), share // len(examples))
            for rank, at in enumerate(places.tolist()):
                tokens = "" if rank else " ".join(map(str, batch.inputs[example].tolist()))
                yield (
                    named(self.split, segment)
                    | {"example": example}
                    | _place(batch, best, example, at)
                    | _source(batch, read, example, at)
                    | _groups(trained, batch, example, at)
                    | {"tokens": tokens}
                )


def _place(batch: Batch, best: Int[Tensor, "B A"], example: int, at: int) -> dict[str, int]:
    place, target, answer = (int(part[example, at]) for part in (batch.positions, batch.answers, best))
    return {"place": place, "target": target, "answer": answer, "right": int(target == answer)}


def _source(batch: Batch, read: Int[Tensor, "B A"] | None, example: int, at: int) -> dict[str, int | None]:
    if read is None:
        return {}
    place, source = int(batch.positions[example, at]), int(read[example, at])
    known = source < place
    return {"source": source if known else None, "distance": place - source if known else None}


def _groups(trained: Trained, batch: Batch, example: int, at: int) -> dict[str, int | str]:
    others = {n: group for n, group in trained.task.groups.items() if not isinstance(group, Distance)}
    values = {name: batch.groups[name][example, at] for name in others}
    return {name: group.label(int(group.bins(values[name]))) for name, group in others.items()}


def _spread(places: Int[Tensor, " N"], most: int) -> Int[Tensor, " n"]:
    """Return at most `most` of the places, evenly spread, with the first and the last among them."""
    if len(places) <= most:
        return places
    picked = torch.linspace(0, len(places) - 1, max(1, most), device=places.device).round().long()
    return places[picked]
