"""Counts of a split by slice, and metrics.csv: one number a row.

Rows are (step, split, slice, metric, value).  `valid` and `test` rows carry the fields of
`zoo.results.outcome.Score`.  `train` rows carry `loss`, the mean cross-entropy in nats over the answers of
that slice in the batches since the row before, and `answers`, how many those were.  Times stay out, and
numbers are written in full, so that identical runs write identical files.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.results.outcome import AtDistance, Score

TOKENS_AT_ONCE = 2**16  # in an evaluation on a GPU
FARTHEST = 40  # as a power of two: how far back a key can stand
TRAIN_EVERY = 50  # steps between two train rows; an epoch's end makes one as well


def rows_at_once(asked: int, seq_len: int, device: str) -> int:
    """In an evaluation: on a GPU, which few rows leave idle, up to 256, or TOKENS_AT_ONCE of tokens."""
    return asked if device == "cpu" else max(asked, min(256, TOKENS_AT_ONCE // seq_len))


class Tally:
    """Adds up the batches of one slice on their device; nothing is read back before `score`."""

    def __init__(self) -> None:
        self._sums: Tensor | None = None  # [5]: right, row fractions, exact rows, loss, rows
        self._by_distance: Tensor | None = None  # [2 FARTHEST]: wrong and right answers, bin by bin
        self._answers = 0

    def add(
        self,
        losses: Float[Tensor, "B A"],
        right: Bool[Tensor, "B A"],
        distances: Int[Tensor, "B A"],
    ) -> None:
        """distances: how many tokens before the query its key stands, 1 or more."""
        by_row = right.double().mean(dim=1)
        rows = torch.ones_like(by_row)
        parts = (right.sum(), by_row.sum(), right.all(dim=1).sum(), losses.double().sum(), rows.sum())
        sums = torch.stack([part.double() for part in parts])
        self._sums = sums if self._sums is None else self._sums + sums
        bins = distances.double().log2().ceil().long().clamp(max=FARTHEST - 1)
        places = (2 * bins + right).flatten()  # bincount would wait for a device, to learn how many there are
        counts = torch.zeros(2 * FARTHEST, dtype=torch.long, device=places.device)
        counts.scatter_add_(0, places, torch.ones_like(places))
        self._by_distance = counts if self._by_distance is None else self._by_distance + counts
        self._answers += right.numel()

    def score(self) -> Score:
        assert self._sums is not None, "a slice without a batch has no score"
        right, fractions, exact, loss, rows = self._sums.tolist()
        return Score(
            accuracy=right / self._answers,
            row_accuracy=fractions / rows,
            exact_rows=exact / rows,
            loss=loss / self._answers,
            answers=self._answers,
            rows=int(rows),
        )

    def by_distance(self) -> list[AtDistance]:
        """The bins that hold an answer, from near to far."""
        assert self._by_distance is not None, "a slice without a batch has no answers"
        counts = self._by_distance.view(FARTHEST, 2).tolist()
        return [
            AtDistance(2**i, wrong + right, right) for i, (wrong, right) in enumerate(counts) if wrong + right
        ]


def pooled_row_accuracy(scores: dict[str, Score]) -> float:
    """Mean over the rows of all slices of the part of a row's answers that are right."""
    rows = sum(score.rows for score in scores.values())
    return sum(score.row_accuracy * score.rows for score in scores.values()) / rows
