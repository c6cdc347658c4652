"""What one cell writes down while it trains: its losses and scores, where it stands, how long it took.

Knows neither the model nor Lightning: who trains the cell, alone or among others, tells it what happened.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pytorch_lightning.loggers import Logger
from torch import Tensor

from zoo.config.settings import OptimConfig
from zoo.evaluation.scores import TRAIN_EVERY, Tally, pooled_row_accuracy
from zoo.results.metrics_csv import Row, score_rows, train_rows
from zoo.results.outcome import AtDistance, Progress, Score
from zoo.tasks.base import Batch
from zoo.tasks.batches import BatchStream
from zoo.training.lr_schedule import lr_factor

REPORT_EVERY = 0.5  # seconds


class Diverged(Exception):
    """The loss of `step` (counted from 1) was not finite."""

    def __init__(self, step: int, lr: float) -> None:
        super().__init__(f"the loss was not finite at step {step}, learning rate {lr:.3g}")
        self.step, self.lr = step, lr


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

    @property
    def valid_scores(self) -> dict[str, Score]:
        return {name: Score(**score) for name, score in self.valid.items()}


class Journal:
    """streams: of each split.  report: hears where the cell stands, at most every REPORT_EVERY seconds.

    share: which part of the time that passes is this cell's; one of P that train together has 1 / P.
    """

    def __init__(
        self,
        streams: dict[str, BatchStream],
        config: OptimConfig,
        *,
        lr: float,
        seed: int,
        report: Callable[[Progress], None],
        loggers: Sequence[Logger] = (),
    ) -> None:
        self.streams, self.config, self.lr, self.seed = streams, config, lr, seed
        self.report, self.loggers = report, loggers
        self.position = Position()
        self.total_steps = config.max_epochs * len(streams["train"])
        self.test: dict[str, Score] = {}
        self.distances: dict[str, list[AtDistance]] = {}  # of the test
        self.share = 1.0
        self._tallies: dict[str, Tally] = {}
        self._loss: float | None = None
        self._timed = self._reported = self._marked = time.perf_counter()

    def resume(self, position: Position) -> None:
        position.wall_seconds += self.wall_seconds()  # spent so far: on loading
        self.position = position
        self.tell(f"resumed at step {position.step}", now=True)

    # training ------------------------------------------------------------------------------------------

    @property
    def steps_left(self) -> bool:
        return self.position.step < self.total_steps and not self.position.early_stopped

    @property
    def epochs_left(self) -> int:
        return self.config.max_epochs - self.position.step // len(self.streams["train"])

    @property
    def ends_epoch(self) -> bool:
        return self.position.step % len(self.streams["train"]) == 0

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """The rest of the epoch that `position` is in."""
        stream, per_epoch = self.streams["train"], len(self.streams["train"])
        stream.load_state_dict(
            {"epoch": self.position.step // per_epoch, "batch": self.position.step % per_epoch}
        )
        return iter(stream)

    def lr_at(self, step: int) -> float:
        return self.lr * lr_factor(self.config, step, self.total_steps)

    def draws_at(self, step: int) -> int:
        """The seed of dropout and its like: a function of the step alone, so no generator state to save."""
        return (self.seed << 32) + step

    def hear(self, step: int, segment: int, answers: int, loss: float) -> None:
        """The loss of a step (from 1), the mean over its answers; Diverged where it is not finite."""
        self._loss = loss
        self.position.pending.append((self.streams["train"].segments[segment].name, answers, loss))
        if not math.isfinite(loss):
            self.position.step = step
            self.flush()
            raise Diverged(step, self.lr_at(step - 1))

    def stepped(self, examples: int) -> bool:
        """One more step is done; whether the losses so far should now be heard and flushed."""
        self.position.step += 1
        self.position.examples += examples
        self.position.to_validate = self.ends_epoch
        return self.ends_epoch or self.position.step % TRAIN_EVERY == 0

    def flush(self) -> None:
        self._add(train_rows(self.position.step, self.position.pending))
        self.position.pending = []

    def _add(self, rows: list[Row]) -> None:
        self.position.rows += rows
        for logger in self.loggers:
            values = {f"{split}/{name}/{metric}": value for _, split, name, metric, value in rows}
            logger.log_metrics(values, step=self.position.step)

    # evaluation ----------------------------------------------------------------------------------------

    def begin_evaluation(self) -> None:
        self._tallies = {}

    def score(self, split: str, segment: int, batch: Batch, losses: Tensor, best: Tensor) -> None:
        """The cross-entropy of each answer of a batch [B * A], and the most likely token in its place."""
        name = self.streams[split].segments[segment].name
        groups = self.streams[split].task.groups
        self._tallies.setdefault(name, Tally(groups)).add(batch, losses, best)

    def end_validation(self) -> bool:
        """Whether training should end here; Diverged where a loss is not finite."""
        scores = {name: tally.score() for name, tally in self._tallies.items()}
        position = self.position
        position.valid = {name: asdict(score) for name, score in scores.items()}
        position.to_validate = False
        self._add(score_rows(position.step, "valid", scores))
        if not all(math.isfinite(score.loss) for score in scores.values()):
            raise Diverged(position.step, self.lr_at(position.step - 1))
        threshold = self.config.early_stop
        if threshold is not None and pooled_row_accuracy(scores) > threshold:
            position.early_stopped = True
        return position.early_stopped

    def end_test(self) -> None:
        self.test = {name: tally.score() for name, tally in self._tallies.items()}
        self.distances = {name: tally.by_distance() for name, tally in self._tallies.items()}
        self._add(score_rows(self.position.step, "test", self.test))

    # time, and what the outside hears --------------------------------------------------------------------

    def begin_training(self) -> None:
        """Time from here on is spent on training, until the last `clock`."""
        self._marked = time.perf_counter()

    def clock(self) -> None:
        now = time.perf_counter()
        self.position.train_seconds += (now - self._marked) * self.share
        self._marked = now

    def wall_seconds(self) -> float:
        """Spent on the cell so far, over every resumption."""
        now = time.perf_counter()
        self.position.wall_seconds += (now - self._timed) * self.share
        self._timed = now
        return self.position.wall_seconds

    def tell(self, message: str, now: bool = False) -> None:
        if not now and time.perf_counter() - self._reported < REPORT_EVERY:
            return
        self._reported = time.perf_counter()
        position, scores = self.position, self.position.valid_scores
        accuracy = pooled_row_accuracy(scores) if scores else None
        epochs = position.step // len(self.streams["train"])
        self.report(Progress(position.step, self.total_steps, epochs, self._loss, accuracy, message))
