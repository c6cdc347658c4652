"""A cell's position in its training, which its checkpoint saves beside weights and optimizer."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from zoo.evaluation.scores import pooled_row_accuracy
from zoo.results.metrics_csv import Row
from zoo.results.outcome import Score

State = dict[str, Any]


@dataclass
class Position:
    """All that changes while a cell trains, except weights and optimizer; it is part of the checkpoint."""

    step: int = 0
    rows: list[Row] = field(default_factory=list)
    pending: list[tuple[str, int, float]] = field(default_factory=list)  # losses not yet in `rows`
    valid: dict[str, dict[str, Any]] = field(default_factory=dict)  # the last validation: slice -> Score
    to_validate: bool = False  # the epoch's steps are done, and its validation is not
    early_stopped: bool = False
    train_seconds: float = 0.0
    wall_seconds: float = 0.0
    examples: int = 0
    kernels: dict[str, str] = field(default_factory=dict)  # for the record: what ran so far
    step_form: str | None = None  # for the record: of the last step
    fresh: list[str] = field(default_factory=list)  # for the record: tensors that `start` did not have

    @property
    def valid_scores(self) -> dict[str, Score]:
        """Return the scores of the last validation, by slice."""
        return {name: Score(**score) for name, score in self.valid.items()}

    @property
    def validated_here(self) -> bool:
        """Return whether the last validation was at this step."""
        return any(row[:2] == (self.step, "valid") for row in self.rows)

    @property
    def valid_accuracy(self) -> float | None:
        """Return the mean accuracy of the last validation's rows; None before the first validation."""
        return pooled_row_accuracy(self.valid_scores) if self.valid else None

    def validated(self, scores: dict[str, Score], early_stop: float | None) -> bool:
        """Note the scores of a validation; return whether their losses are finite.

        Training stops early if the mean row accuracy is above `early_stop`.
        """
        self.valid = {name: asdict(score) for name, score in scores.items()}
        self.to_validate = False
        finite = all(math.isfinite(score.loss) for score in scores.values())
        if finite and early_stop is not None:
            self.early_stopped |= pooled_row_accuracy(scores) > early_stop
        return finite
