"""What training one cell yields, and what it says while it runs.  All of it becomes JSON by `asdict`."""

from dataclasses import dataclass
from typing import Literal

from zoo.config.cell import Cell
from zoo.state import StateSize


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running cell stands; sent about twice a second and at the end of every epoch."""

    step: int  # training steps done
    total_steps: int
    epoch: int  # epochs done
    loss: float | None  # of the latest training batch
    valid_accuracy: float | None  # mean over all validation rows of their row accuracy, latest evaluation
    message: str  # "training", "validating", "testing", "resumed at step 300"


@dataclass(frozen=True, slots=True)
class Score:
    """How one split of one slice went: counts, and the averages that are made of them.

    accuracy: right answers over answers.  row_accuracy: mean over rows of the fraction of that row's answers
    that are right.  exact_rows: rows with every answer right over rows.  loss: mean cross-entropy per
    answer, in nats.
    """

    accuracy: float
    row_accuracy: float
    exact_rows: float
    loss: float
    answers: int
    rows: int


@dataclass(frozen=True, slots=True)
class InGroup:
    """Answers of one kind: those to which the task's `group` gives this `value`."""

    group: str
    value: int | str
    answers: int
    right: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cell that has finished: trained and tested to its end ("ok"), or with a loss not finite ("diverged").

    An interrupted or failed cell raises instead, so an Outcome is never a false success.
    """

    status: Literal["ok", "diverged"]
    diverged_step: int | None  # the first step (counted from 1) whose loss was not finite
    diverged_lr: float | None  # the learning rate of that step
    steps: int
    total_steps: int  # what was planned
    epochs: int
    early_stopped: bool
    scores: dict[str, dict[str, Score]]  # split -> Segment.name -> Score; the last validation and the test
    coverage: (
        dict[str, float] | None
    )  # test slice -> answers in the stack's view; None: a stack that sees all
    groups: dict[str, list[InGroup]]  # test slice -> its answers, told apart as the task does
    state_seq_len: int  # the longest test length: the two sizes are the most that is kept in it
    state_model: StateSize  # summed over layers
    state_mixer: StateSize  # one layer of the chosen mixer
    layers: list[str]  # class names, first layer first
    parameters: int
    parameters_without_embedding: int  # nor untied head
    causal: bool
    exact_decode: bool
    wall_seconds: float  # all of it, over every resumption
    examples_per_second: float | None  # while training, evaluation left out; None: no step was taken
    decode_tokens_per_second: (
        float | None
    )  # see zoo.evaluation.decode_speed; None: diverged, no exact decoding, or `decode_missing`
    operations: float  # of the whole cell as planned, counted from shapes (zoo.evaluation.flops)
    peak_memory_bytes: int  # of the process on a CPU; allocated on the device on a GPU
    kernels: dict[str, str]  # op -> implementation that ran
    step_form: (
        str | None
    )  # how steps were taken, and why not otherwise (zoo.training.step); None: none were taken
    weights: str | None = None  # SHA-256 of weights.safetensors; None: none are kept
    decode_missing: str | None = None  # the error with which the timing of decoding ended; None: with none


@dataclass(frozen=True)
class Failure:
    """A cell that has no result, and why, in one line."""

    cell: Cell
    reason: str


def reason(error: BaseException) -> str:
    """The error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
