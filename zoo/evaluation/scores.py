"""Count the right answers of a split by slice, for metrics.csv, which has one number a row.

Rows are (step, split, slice, metric, value).  `valid` and `test` rows carry the fields of
`zoo.results.outcome.Score`.  `train` rows carry `loss`, the mean cross-entropy in nats over the answers of
that slice in the batches since the previous row, and `answers`, the number of these answers.  Times are left
out, and numbers are written in full, so that identical runs write identical files.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.results.outcome import InGroup, Score
from zoo.tasks.base import IGNORED, Batch
from zoo.tasks.groups import Group

TOKENS_AT_ONCE = 2**16  # tokens of one batch of an evaluation
PAIRS_AT_ONCE = 2**26  # pairs of tokens in its rows, of which some mixers hold a number each
TRAIN_EVERY = 50  # steps between two train rows; the end of an epoch also writes a row


def rows_together(seq_len: int) -> int:
    """Return how many rows have TOKENS_AT_ONCE tokens, and PAIRS_AT_ONCE pairs of them, at least one."""
    return max(1, min(TOKENS_AT_ONCE // seq_len, PAIRS_AT_ONCE // seq_len**2))


def rows_at_once(wanted: int, seq_len: int, device: str) -> int:
    """Return `wanted` rows; on a GPU, which few rows leave idle, up to 256 rows or `rows_together`."""
    return wanted if device == "cpu" else max(wanted, min(256, rows_together(seq_len)))


class Tally:
    """A sum over the batches of one slice, kept on their device; nothing is read back before `score`.

    groups: of the task.
    """

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self.groups = groups
        self._sums: Tensor | float = 0.0  # [6]: right, row fractions, exact rows, loss, rows, answers
        self._counts: dict[str, Tensor] = {}  # of each group [2 size]: wrong and right answers, bin by bin

    def add(self, batch: Batch, losses: Float[Tensor, " N"], best: Int[Tensor, " N"]) -> None:
        """Add a batch with each answer's cross-entropy (losses) and most likely token (best); N = B A."""
        scored = batch.answers != IGNORED
        right = best.view_as(batch.answers) == batch.answers
        by_row = right.sum(dim=1).double() / scored.sum(dim=1)
        exact, rows = (right == scored).all(dim=1), torch.ones_like(by_row)
        parts = (right, by_row, exact, losses.double(), rows, scored)
        self._sums = self._sums + torch.stack([part.sum().double() for part in parts])
        for name, group in self.groups.items():
            bins = group.bins(batch.groups[name]).where(scored, 0)
            places = (2 * bins + right).flatten()  # bincount would wait for the device to know its size
            counts = torch.zeros(2 * group.size, dtype=torch.long, device=places.device)
            counts.scatter_add_(0, places, scored.flatten().long())
            self._counts[name] = self._counts.get(name, 0) + counts

    def score(self) -> Score:
        """Return the score of all batches added; at least one must have been added."""
        assert isinstance(self._sums, Tensor), "a slice without a batch has no score"
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
        """Return the bins of each group that hold an answer, in order."""
        rows = []
        for name, counts in self._counts.items():
            for bin_, (wrong, right) in enumerate(counts.view(-1, 2).tolist()):
                if wrong + right:
                    rows.append(InGroup(name, self.groups[name].label(bin_), wrong + right, right))
        return rows


def pooled_row_accuracy(scores: dict[str, Score]) -> float:
    """Return the mean, over the rows of all slices, of the share of a row's answers that are right."""
    rows = sum(score.rows for score in scores.values())
    return sum(score.row_accuracy * score.rows for score in scores.values()) / rows
