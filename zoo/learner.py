"""The training of one cell as Lightning sees it: steps, evaluations, and where they stand.

The position (`Position`) is ours, not Lightning's: a resumed cell is a fresh fit over the batches that
remain, so nothing depends on how a Lightning version restores its loops.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from zoo.batches import BatchStream
from zoo.kernels.linear_cross_entropy import answer_scores, linear_cross_entropy
from zoo.metrics import TRAIN_EVERY, Row, Tally, pooled_row_accuracy, score_rows, train_rows
from zoo.model import SequenceModel
from zoo.optimizer import OptimConfig, make_optimizer
from zoo.outcome import AtDistance, Progress, Score, Terminated
from zoo.schedule import lr_factor
from zoo.tasks.base import Batch

REPORT_EVERY = 0.5  # seconds
LOOK_EVERY = {"cpu": 1}  # steps between two looks at the losses; each look waits for a GPU
LOOK_EVERY_ELSEWHERE = 50


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
    early_stopped: bool = False
    train_seconds: float = 0.0
    wall_seconds: float = 0.0
    examples: int = 0

    @property
    def valid_scores(self) -> dict[str, Score]:
        return {name: Score(**score) for name, score in self.valid.items()}


class Learner(pl.LightningModule):
    """save: called with the learner at every epoch's end and every `checkpoint_every` steps."""

    def __init__(
        self,
        model: SequenceModel,
        streams: dict[str, BatchStream],
        config: OptimConfig,
        *,
        lr: float,
        seed: int,
        checkpoint_every: int,
        save: Callable[["Learner"], None],
        report: Callable[[Progress], None],
    ) -> None:
        super().__init__()
        self.model, self.streams, self.config = model, streams, config
        self.lr, self.seed, self.checkpoint_every = lr, seed, checkpoint_every
        self.save, self.report = save, report
        self.position = Position()
        self.optimizer_state: dict[str, Any] | None = None  # to start from
        self.total_steps = config.max_epochs * len(streams["train"])
        self.test: dict[str, Score] = {}
        self.distances: dict[str, list[AtDistance]] = {}  # of the test
        self._unread: list[tuple[int, str, int, Tensor]] = []  # step, slice, answers, loss on the device
        self._tallies: dict[str, Tally] = {}
        self._loss: float | None = None
        self.began = self._reported = self._marked = time.perf_counter()

    # one step ------------------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = make_optimizer(self.model, self.config, self.lr)
        if self.optimizer_state is not None:
            optimizer.load_state_dict(self.optimizer_state)
        return optimizer

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """The rest of the epoch that `position` is in."""
        stream, per_epoch = self.streams["train"], len(self.streams["train"])
        stream.load_state_dict(
            {"epoch": self.position.step // per_epoch, "batch": self.position.step % per_epoch}
        )
        return iter(stream)

    def lr_at(self, step: int) -> float:
        return self.lr * lr_factor(self.config, step, self.total_steps)

    def training_step(self, item: tuple[int, Batch], index: int) -> Tensor:
        del index
        segment, batch = item
        step = self.position.step
        self._seed(step)
        for group in self.optimizers(use_pl_optimizer=False).param_groups:  # pyright: ignore
            group["lr"] = self.lr_at(step)
        loss = answers_loss(self.model, batch)
        name = self.streams["train"].segments[segment].name
        self._unread.append((step + 1, name, batch.answers.numel(), loss.detach()))
        if len(self._unread) >= LOOK_EVERY.get(loss.device.type, LOOK_EVERY_ELSEWHERE):
            self.read_losses()
        return loss

    def _seed(self, step: int) -> None:
        """Dropout and its like become a function of the step alone: no generator state to save.

        Not torch.manual_seed: where CUDA sleeps, that notes the call and its stack trace, each time.
        """
        torch.default_generator.manual_seed((self.seed << 32) + step)
        if self.device.type == "cuda":
            torch.cuda.manual_seed((self.seed << 32) + step)

    def read_losses(self) -> None:
        """Fetch what the device has computed; Diverged at the first loss that is not finite."""
        if not self._unread:
            return
        losses = torch.stack([loss for *_, loss in self._unread]).tolist()
        unread, self._unread = self._unread, []
        for (step, name, answers, _), loss in zip(unread, losses, strict=True):
            self._loss = loss
            self.position.pending.append((name, answers, loss))
            if not math.isfinite(loss):
                self.position.step = step
                self._flush()
                raise Diverged(step, self.lr_at(step - 1))

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """By the norm of all gradients; our own because Lightning's refuses a fused optimizer on a GPU."""
        del gradient_clip_val, gradient_clip_algorithm
        if self.config.grad_clip is not None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self.config.grad_clip)

    def on_train_batch_end(self, outputs: Any, batch: tuple[int, Batch], batch_idx: int) -> None:
        del outputs, batch_idx
        position = self.position
        position.step += 1
        position.examples += batch[1].inputs.shape[0]
        ends_epoch = position.step % len(self.streams["train"]) == 0
        if ends_epoch or position.step % TRAIN_EVERY == 0:
            self.read_losses()
            self._flush()
        self._clock()
        self.tell("training")
        if not ends_epoch and (position.step % self.checkpoint_every == 0 or self.trainer.received_sigterm):
            self.read_losses()
            self.save(self)
        self.stop_if_told()

    def _flush(self) -> None:
        self._add(train_rows(self.position.step, self.position.pending))
        self.position.pending = []

    def _add(self, rows: list[Row]) -> None:
        self.position.rows += rows
        for logger in self.loggers:
            values = {f"{split}/{name}/{metric}": value for _, split, name, metric, value in rows}
            logger.log_metrics(values, step=self.position.step)

    def _clock(self) -> None:
        now = time.perf_counter()
        self.position.train_seconds += now - self._marked
        self._marked = now

    # epochs and evaluations ----------------------------------------------------------------------------

    def on_train_epoch_start(self) -> None:
        self._marked = time.perf_counter()

    def on_validation_epoch_start(self) -> None:
        self._tallies = {}

    def validation_step(self, item: tuple[int, Batch], index: int) -> None:
        del index
        self._evaluate("valid", item)
        self.tell("validating")

    def on_validation_epoch_end(self) -> None:
        scores = {name: tally.score() for name, tally in self._tallies.items()}
        position = self.position
        position.valid = {name: asdict(score) for name, score in scores.items()}
        self._add(score_rows(position.step, "valid", scores))
        if not all(math.isfinite(score.loss) for score in scores.values()):
            raise Diverged(position.step, self.lr_at(position.step - 1))
        threshold = self.config.early_stop
        if threshold is not None and pooled_row_accuracy(scores) > threshold:
            position.early_stopped = self.trainer.should_stop = True

    def on_train_epoch_end(self) -> None:
        self.save(self)
        self.tell("training", now=True)
        self.stop_if_told()

    def on_test_epoch_start(self) -> None:
        self._tallies = {}

    def test_step(self, item: tuple[int, Batch], index: int) -> None:
        del index
        self._evaluate("test", item)
        self.tell("testing")
        self.stop_if_told()

    def on_test_epoch_end(self) -> None:
        self.test = {name: tally.score() for name, tally in self._tallies.items()}
        self.distances = {name: tally.by_distance() for name, tally in self._tallies.items()}
        self._add(score_rows(self.position.step, "test", self.test))

    def _evaluate(self, split: str, item: tuple[int, Batch]) -> None:
        segment, batch = item
        name = self.streams[split].segments[segment].name
        losses, best = answer_scores(
            answer_states(self.model, batch), self.model.head_weight, batch.answers.flatten()
        )
        right = best.view_as(batch.answers) == batch.answers
        distances = batch.positions - batch.sources
        self._tallies.setdefault(name, Tally()).add(losses.view_as(right), right, distances)

    # what the outside hears and says -------------------------------------------------------------------

    def tell(self, message: str, now: bool = False) -> None:
        if not now and time.perf_counter() - self._reported < REPORT_EVERY:
            return
        self._reported = time.perf_counter()
        position, scores = self.position, self.position.valid_scores
        accuracy = pooled_row_accuracy(scores) if scores else None
        epochs = position.step // len(self.streams["train"])
        self.report(Progress(position.step, self.total_steps, epochs, self._loss, accuracy, message))

    def wall_seconds(self) -> float:
        return time.perf_counter() - self.began

    def stop_if_told(self) -> None:
        """Lightning only notes a SIGTERM, and then leaves with exit code 0."""
        if self.trainer.received_sigterm:
            raise Terminated


def answer_states(model: SequenceModel, batch: Batch) -> Tensor:
    """Hidden states [B * A, D] where answers are asked for."""
    return model(batch.inputs, batch.positions).flatten(0, 1)


def answers_loss(model: SequenceModel, batch: Batch) -> Tensor:
    """Mean cross-entropy over the answers: the same, with the same gradients, as all logits and a mask."""
    return linear_cross_entropy(answer_states(model, batch), model.head_weight, batch.answers.flatten())
