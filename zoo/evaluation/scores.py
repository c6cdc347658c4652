"""Counts of a split by slice, and metrics.csv: one number a row.

Rows are (step, split, slice, metric, value).  `valid` and `test` rows carry the fields of
`zoo.results.outcome.Score`.  `train` rows carry `loss`, the mean cross-entropy in nats over the answers of
that slice in the batches since the row before, and `answers`, how many those were.  Times stay out, and
numbers are written in full, so that identical runs write identical files.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.results.outcome import InGroup, Score
from zoo.tasks.base import IGNORED, Batch
from zoo.tasks.groups import Group

TOKENS_AT_ONCE = 2**16  # in an evaluation
TRAIN_EVERY = 50  # steps between two train rows; an epoch's end makes one as well


def rows_together(seq_len: int) -> int:
    """Return as many rows as have TOKENS_AT_ONCE, at least one."""
    return max(1, TOKENS_AT_ONCE // seq_len)


def rows_at_once(wanted: int, seq_len: int, device: str) -> int:
    """Return as many rows as wanted; on a GPU, which few leave idle, to 256 or TOKENS_AT_ONCE of tokens."""
    return wanted if device == "cpu" else max(wanted, min(256, rows_together(seq_len)))


class Tally:
    """Adds up the batches of one slice on their device; nothing is read back before `score`.

    groups: of the task.
    """

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self.groups = groups
        self._sums: Tensor | None = None  # [6]: right, row fractions, exact rows, loss, rows, answers
        self._counts: dict[str, Tensor] = {}  # of each group [2 size]: wrong and right answers, bin by bin

    def add(self, batch: Batch, losses: Float[Tensor, " N"], best: Int[Tensor, " N"]) -> None:
        """losses: the cross-entropy of each answer; best: the most likely token in its place; N = B A."""
        scored = batch.answers != IGNORED
        right = best.view_as(batch.answers) == batch.answers
        by_row = right.sum(dim=1).double() / scored.sum(dim=1)
        exact, rows = (right == scored).all(dim=1), torch.ones_like(by_row)
        parts = (right, by_row, exact, losses.double(), rows, scored)
        self._sums = _plus(self._sums, torch.stack([part.sum().double() for part in parts]))
        for name, group in self.groups.items():
            bins = group.bins(batch.groups[name]).where(scored, 0)
            places = (2 * bins + right).flatten()  # bincount would wait for a device: how many are there?
            counts = torch.zeros(2 * group.size, dtype=torch.long, device=places.device)
            counts.scatter_add_(0, places, scored.flatten().long())
            self._counts[name] = _plus(self._counts.get(name), counts)

    def score(self) -> Score:
        """Return the score of all that was added; without a batch there is none."""
        assert self._sums is not None, "a slice without a batch has no score"
        right, fractions, exact, loss, rows, answers = self._sums.tolist()
        return Score(
            accuracy=right / answers,
            row_accuracy=fractions / rows,
            exact_rows=exact / rows,
            loss=loss / answers,
            answers=int(answers),
            rows=int(rows),
        )

    def by_group(self) -> list[InGroup]:
        """List the bins of each group that hold an answer, in their order."""
        rows = []
        for name, counts in self._counts.items():
            for bin_, (wrong, right) in enumerate(counts.view(-1, 2).tolist()):
                if wrong + right:
                    rows.append(InGroup(name, self.groups[name].label(bin_), wrong + right, right))
        return rows


def _plus(before: Tensor | None, more: Tensor) -> Tensor:
    return more if before is None else before + more


def pooled_row_accuracy(scores: dict[str, Score]) -> float:
    """Mean over the rows of all slices of the part of a row's answers that are right."""
    rows = sum(score.rows for score in scores.values())
    return sum(score.row_accuracy * score.rows for score in scores.values()) / rows
