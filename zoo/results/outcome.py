"""Describe a cell's progress, its scores, and the reason why it has no result."""

from dataclasses import dataclass

from zoo.config.cell import Cell


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running cell, reported about twice a second and at the end of every epoch."""

    step: int  # training steps done
    total_steps: int
    epoch: int  # epochs done
    loss: float | None  # of the latest training batch
    valid_accuracy: float | None  # mean over all validation rows of their row accuracy, latest evaluation
    message: str  # "training", "validating", "testing", "resumed at step 300"


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of one split of one slice.

    accuracy: right answers over answers.  row_accuracy: mean over rows of the fraction of that row's answers
    that are right.  exact_rows: rows with every answer right, over rows.  loss: mean cross-entropy per
    answer, in nats.
    """

    accuracy: float
    row_accuracy: float
    exact_rows: float
    loss: float
    answers: int
    rows: int


UNSCORED = dict.fromkeys(("accuracy", "row_accuracy", "exact_rows", "loss")) | {"answers": 0, "rows": 0}


@dataclass(frozen=True, slots=True)
class InGroup:
    """The count of answers to which the task's `group` gives this `value`, and of the right ones."""

    group: str
    value: int | str
    answers: int
    right: int


@dataclass(frozen=True)
class Failure:
    """A cell that has no result, with the reason in one line."""

    cell: Cell
    reason: str
