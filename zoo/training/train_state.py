"""A cell that trains: what is saved of it (`Position`), and what is built again from its config (`Begun`)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback
from pytorch_lightning.loggers import Logger

from zoo.config.cell import Cell
from zoo.evaluation.scores import Tally, pooled_row_accuracy
from zoo.model import SequenceModel
from zoo.results.metrics_csv import Row, score_rows, write_csv
from zoo.results.outcome import Progress, Score
from zoo.tasks.base import Batch, Task
from zoo.tasks.batches import BatchStream
from zoo.training import checkpoint
from zoo.training.lr_schedule import lr_factor

CHECKPOINT, METRICS = "last.ckpt", "metrics.csv"
State = dict[str, Any]


@dataclass
class Position:
    """All that changes while a cell trains, beside weights and optimizer; goes into the checkpoint."""

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
        return {name: Score(**score) for name, score in self.valid.items()}

    def validated(self, scores: dict[str, Score], early_stop: float | None) -> bool:
        """Whether their losses are finite; beyond `early_stop`, a mean over rows, no step is left."""
        self.valid = {name: asdict(score) for name, score in scores.items()}
        self.to_validate = False
        finite = all(math.isfinite(score.loss) for score in scores.values())
        if finite and early_stop is not None:
            self.early_stopped = pooled_row_accuracy(scores) > early_stop
        return finite


@dataclass
class Begun:
    """A cell before its first step, or its next.

    streams: of each split.  optimizer_state: of its checkpoint, where it has one.  began: when it was, by
    `time.perf_counter`.  loss: of its latest step.  tallies: of its latest evaluation, by slice.
    diverged: the step, counted from 1, whose loss was not finite.
    """

    cell: Cell
    folder: Path
    task: Task
    model: SequenceModel
    streams: dict[str, BatchStream]
    began: float
    report: Callable[[Progress], None]
    loggers: Sequence[Logger] = ()
    callbacks: Sequence[Callback] = ()
    position: Position = field(default_factory=Position)
    optimizer_state: State | None = None
    loss: float | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)
    diverged: int | None = None

    @property
    def epoch_steps(self) -> int:
        return len(self.streams["train"])

    @property
    def total_steps(self) -> int:
        return self.cell.optim.max_epochs * self.epoch_steps

    @property
    def steps_left(self) -> bool:
        return self.position.step < self.total_steps and not self.position.early_stopped

    @property
    def epochs(self) -> int:
        """Done."""
        return self.position.step // self.epoch_steps

    @property
    def ends_epoch(self) -> bool:
        return self.position.step % self.epoch_steps == 0

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """The rest of the epoch that `position` is in."""
        batch = self.position.step % self.epoch_steps
        self.streams["train"].load_state_dict({"epoch": self.epochs, "batch": batch})
        return iter(self.streams["train"])

    def lr_at(self, step: int) -> float:
        return self.cell.lr * lr_factor(self.cell.optim, step, self.total_steps)

    def draws_at(self, step: int) -> int:
        """The seed of dropout and its like: a function of the step alone, so no generator state to save."""
        return (self.cell.seed << 32) + step

    def stepped(self, examples: int) -> None:
        """One more step is done."""
        self.position.step += 1
        self.position.examples += examples
        every = self.cell.optim.check_val_every_n_epoch
        self.position.to_validate = self.ends_epoch and (self.epochs % every == 0 or not self.steps_left)

    def scores(self) -> dict[str, Score]:
        return {name: tally.score() for name, tally in self.tallies.items()}

    def monitored(self) -> dict[str, float]:
        """What a callback may watch: the last validation, over all answers and slice by slice."""
        scores = self.position.valid_scores
        rows = score_rows(self.position.step, "valid", scores)
        answers = sum(score.answers for score in scores.values())
        whole = {
            f"valid/{name}": sum(getattr(score, name) * score.answers for score in scores.values()) / answers
            for name in ("accuracy", "loss")
        }
        return whole | {f"valid/{name}/{metric}": value for _, _, name, metric, value in rows}

    def log(self, rows: list[Row]) -> None:
        """Rows for metrics.csv, at the step that the cell is at; its loggers hear them too."""
        self.position.rows += rows
        for logger in self.loggers:
            values = {f"{split}/{name}/{metric}": value for _, split, name, metric, value in rows}
            logger.log_metrics(values, step=self.position.step)

    def tell(self, message: str) -> None:
        """Report where training stands, with the accuracy of the last validation."""
        scores = self.position.valid_scores
        accuracy = pooled_row_accuracy(scores) if scores else None
        place = (self.position.step, self.total_steps, self.epochs)
        self.report(Progress(*place, self.loss, accuracy, message))

    def save(self, model: State, optimizer: State | None, ran: dict[str, str], form: str | None) -> None:
        """The checkpoint, with these states, and metrics.csv.  ran, form: what the steps were taken with."""
        self.position.kernels, self.position.step_form = ran, form or self.position.step_form
        contents = {"position": asdict(self.position), "model": model, "optimizer": optimizer}
        checkpoint.save(self.folder / CHECKPOINT, self.cell.run_id, contents)
        self.write_metrics()

    def write_metrics(self) -> None:
        write_csv(self.folder / METRICS, self.position.rows)
