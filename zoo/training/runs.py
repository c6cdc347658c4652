"""Keep the books of training: the position of each cell, and which cells of a population go on.

This module knows neither how a step is taken nor Lightning's loops: `zoo.training.learner` does.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from pytorch_lightning import Callback
from pytorch_lightning.loggers import Logger
from torch import Tensor

from zoo.config.cell import Cell
from zoo.evaluation.scores import TRAIN_EVERY, Tally
from zoo.model import SequenceModel
from zoo.results.metrics_csv import Row, score_rows, train_rows, write_csv
from zoo.results.outcome import Progress, Score
from zoo.results.record import Outcome
from zoo.tasks.base import IGNORED, Batch, Task, joined
from zoo.tasks.batches import BatchStream
from zoo.training import checkpoint
from zoo.training.lr_schedule import lr_factor
from zoo.training.train_state import Position, State

CHECKPOINT, METRICS = "last.ckpt", "metrics.csv"
LOOK_EVERY = {"cpu": 1}  # steps between two reads of the losses; on a GPU each read waits for the device
LOOK_EVERY_ELSEWHERE = 50
REPORT_EVERY = 0.5  # seconds
Item = tuple[int, list[Batch]]  # segment; a batch for each member, or one that all share


@dataclass
class Run:
    """One cell in training: its parts and its position.

    streams: one for each split.  began: by `time.perf_counter`.  lengths: of the shortest training row, and
    of the longest row of all splits.  optimizer_state: from the checkpoint, if there is one.  loss: of the
    latest step.  tallies: of the latest evaluation, by slice.  diverged: the step, counted from 1, whose loss
    was not finite.
    """

    cell: Cell
    folder: Path
    task: Task
    model: SequenceModel
    streams: dict[str, BatchStream]
    began: float
    lengths: tuple[int, int]
    report: Callable[[Progress], None]
    finished: Callable[[Outcome], None]
    loggers: Sequence[Logger] = ()
    callbacks: Sequence[Callback] = ()
    position: Position = field(default_factory=Position)
    optimizer_state: State | None = None
    loss: float | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)
    diverged: int | None = None
    outcome: Outcome | None = None

    @property
    def epoch_steps(self) -> int:
        """Return the steps in an epoch."""
        return len(self.streams["train"])

    @property
    def total_steps(self) -> int:
        """Return the steps of the whole training."""
        return self.cell.optim.max_epochs * self.epoch_steps

    @property
    def steps_left(self) -> bool:
        """Return whether the run still has steps to take."""
        return self.position.step < self.total_steps and not self.position.early_stopped

    @property
    def epochs(self) -> int:
        """Return how many epochs are done."""
        return self.position.step // self.epoch_steps

    @property
    def ends_epoch(self) -> bool:
        """Return whether the latest step was the last of an epoch."""
        return self.position.step % self.epoch_steps == 0

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Iterate over the rest of the epoch that `position` is in."""
        batch = self.position.step % self.epoch_steps
        self.streams["train"].load_state_dict({"epoch": self.epochs, "batch": batch})
        return iter(self.streams["train"])

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return self.cell.lr * lr_factor(self.cell.optim, step, self.total_steps)

    def seed_at(self, step: int) -> int:
        """Return the seed of dropout and its like; it follows from the step, so no generator is saved."""
        return (self.cell.seed << 32) + step

    def count_step(self, examples: int) -> None:
        """Count one more step over `examples` examples, and note whether a validation is due."""
        self.position.step += 1
        self.position.examples += examples
        every = self.cell.optim.check_val_every_n_epoch
        self.position.to_validate = self.ends_epoch and (self.epochs % every == 0 or not self.steps_left)

    def scores(self) -> dict[str, Score]:
        """Return the scores of the latest evaluation, by slice."""
        return {name: tally.score() for name, tally in self.tallies.items()}

    def monitored(self) -> dict[str, float]:
        """Return what a callback may watch: the last validation, over all answers and slice by slice."""
        scores = self.position.valid_scores
        rows = score_rows(self.position.step, "valid", scores)
        answers = sum(score.answers for score in scores.values())
        whole = {
            f"valid/{name}": sum(getattr(score, name) * score.answers for score in scores.values()) / answers
            for name in ("accuracy", "loss")
        }
        return whole | {f"valid/{name}/{metric}": value for _, _, name, metric, value in rows}

    def log(self, rows: list[Row]) -> None:
        """Add rows to those of metrics.csv and pass them to the loggers, at the cell's current step."""
        self.position.rows += rows
        for logger in self.loggers:
            values = {f"{split}/{name}/{metric}": value for _, split, name, metric, value in rows}
            logger.log_metrics(values, step=self.position.step)

    def record_loss(self, step: int, segment: int, answers: int, loss: float) -> None:
        """Note the loss of a step, the mean over its answers; the cell diverges if it is not finite."""
        self.loss = loss
        self.position.pending.append((self.streams["train"].segments[segment].name, answers, loss))
        if not math.isfinite(loss):
            self.diverged = self.position.step = step
            self.log_losses()

    def log_losses(self) -> None:
        """Make rows of the losses noted since the last call."""
        self.log(train_rows(self.position.step, self.position.pending))
        self.position.pending = []

    def report_progress(self, message: str) -> None:
        """Report where training stands, with the accuracy of the last validation."""
        place = (self.position.step, self.total_steps, self.epochs)
        self.report(Progress(*place, self.loss, self.position.valid_accuracy, message))

    def save(self, model: State, optimizer: State | None, ran: dict[str, str], form: str | None) -> None:
        """Write the checkpoint, with these states, and metrics.csv.  ran, form: how the steps were taken."""
        self.position.kernels, self.position.step_form = ran, form or self.position.step_form
        contents = {"position": asdict(self.position), "model": model, "optimizer": optimizer}
        checkpoint.save(self.folder / CHECKPOINT, self.cell.run_id, contents)
        self.write_metrics()

    def write_metrics(self) -> None:
        """Write metrics.csv."""
        write_csv(self.folder / METRICS, self.position.rows)


class Runs:
    """The runs that train at the same steps: one alone, or the members of a population.

    members: all at the same step.  live: indices of those that train, all by default; the others, ghosts,
    only hold their rows.

    active: indices of the members that have steps left; in the test, of all sound members.
    sound: of those that have not diverged.  ended: of those that have ended and are still to be concluded.
    """

    def __init__(self, members: Sequence[Run], live: Sequence[int] | None = None) -> None:
        self.members = list(members)
        self.active = list(range(len(members)) if live is None else live)
        self.sound, self.ended = list(self.active), list[int]()
        self._unread: list[tuple[int, int, Tensor, Tensor]] = []  # the arguments of `record_step`
        self._reported = time.perf_counter()
        self._counted = min(run.began for run in self.at_work())  # time up to here is in the runs' positions

    def at_work(self) -> list[Run]:
        """Return the runs that are active."""
        return [self.members[member] for member in self.active]

    @property
    def first(self) -> Run:
        """Return the first active run; all active runs are at its step."""
        return self.members[self.active[0]]

    # batches -----------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Item]:
        """Iterate over the rest of the epoch that the members are in."""
        return self._side_by_side(Run.batches)

    def evaluated(self, split: str) -> Iterator[Item]:
        """Iterate over every batch of a split."""
        return self._side_by_side(lambda run: iter(run.streams[split]))

    def _side_by_side(self, batches: Callable[[Run], Iterator[tuple[int, Batch]]]) -> Iterator[Item]:
        """Iterate over the members' batches step by step.

        Members with the same data stream share one batch; a finished member gets another member's, so that
        shapes stay equal.  A single batch is given only where all members, finished ones too, share one
        stream: how rows are computed must not depend on which members have ended.
        """
        streams = [id(run.streams) for run in self.members]
        distinct = {id(run.streams): run for run in self.at_work()}
        for items in zip(*map(batches, distinct.values()), strict=True):
            segment, first = items[0]
            if any(other != segment for other, _ in items):
                raise ValueError("the members' segments come in different orders: they cannot train as one.")
            made = dict(zip(distinct, (batch for _, batch in items), strict=True))
            yield segment, [made.get(of, first) for of in streams] if len(set(streams)) > 1 else [first]

    # losses ------------------------------------------------------------------------------------------------

    def record_step(self, step: int, segment: int, answers: Tensor, losses: Tensor) -> None:
        """Note one more step, counted from 1.  answers: [B A] or [P B A]; losses: [P], or one cell's scalar.

        Both tensors stay on the device until `read_losses`.
        """
        self._unread.append((step, segment, answers, losses))
        if len(self._unread) >= LOOK_EVERY.get(losses.device.type, LOOK_EVERY_ELSEWHERE):
            self.read_losses()

    def read_losses(self) -> None:
        """Fetch the losses that the device has computed; a member whose loss is not finite has ended."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        counts = [(answers != IGNORED).sum((-2, -1)).expand_as(losses) for *_, answers, losses in unread]
        losses = [losses for *_, losses in unread]
        of_each = (torch.stack(values).view(len(unread), -1).tolist() for values in (counts, losses))
        for (step, segment, *_), answers, loss in zip(unread, *of_each, strict=True):
            for member in self.active:
                if self.members[member].diverged is None:
                    self.members[member].record_loss(step, segment, answers[member], loss[member])
        self._end(lambda run: run.diverged is not None)

    def count_step(self, rows: int) -> None:
        """Count a step over `rows` rows of each member."""
        for run in self.at_work():
            run.count_step(rows)
        if self.first.ends_epoch or self.first.position.step % TRAIN_EVERY == 0:
            self.read_losses()
            for run in self.at_work():
                run.log_losses()

    # evaluations -------------------------------------------------------------------------------------------

    def begin_evaluation(self) -> None:
        """Empty the tallies."""
        for run in self.at_work():
            run.tallies = {}

    def count_answers(
        self, split: str, segment: int, member: int, batch: Batch, losses: Tensor, best: Tensor
    ) -> None:
        """Count a member's answers in a batch: cross-entropy and likeliest token of each, both [B * A]."""
        run = self.members[member]
        name = run.streams[split].segments[segment].name
        run.tallies.setdefault(name, Tally(run.task.groups)).add(batch, losses, best)

    def end_validation(self) -> None:
        """Log the scores; a member whose loss is not finite has ended."""
        for run in self.at_work():
            scores = run.scores()
            run.log(score_rows(run.position.step, "valid", scores))
            if not run.position.validated(scores, run.cell.optim.early_stop):
                run.diverged = run.position.step
        self._end(lambda run: run.diverged is not None)

    def stop_early(self) -> None:
        """Note that no member at work is to train on; where it stops inside an epoch, a validation is due."""
        for run in self.at_work():
            run.position.early_stopped = True
            run.position.to_validate = not run.position.validated_here

    def end_epoch(self) -> None:
        """Close an epoch; a member that stops early has ended."""
        self._end(lambda run: run.position.early_stopped)

    def end_test(self) -> None:
        """Log the scores of the test; a member whose loss is not finite has diverged."""
        for run in self.at_work():
            scores = run.scores()
            run.log(score_rows(run.position.step, "test", scores))
            if not all(math.isfinite(score.loss) for score in scores.values()):
                run.diverged = run.position.step

    # who goes on -------------------------------------------------------------------------------------------

    def _end(self, over: Callable[[Run], bool]) -> None:
        """End the active members that are `over`; the time from here on is shared by the others."""
        ended = [member for member in self.active if over(self.members[member])]
        if ended:
            self.count_time()
            self.active = [member for member in self.active if member not in ended]
            self.sound = [member for member in self.sound if self.members[member].diverged is None]
            self.ended += ended

    def begin_test(self) -> None:
        """Make the members active that stopped early."""
        self.count_time()
        self.active = self.sound

    def count_time(self, training: bool = False) -> None:
        """Add the time since the last call to the active runs, in equal shares."""
        now = time.perf_counter()
        for run in self.at_work():
            share = (now - self._counted) / len(self.active)
            run.position.wall_seconds += share
            run.position.train_seconds += share if training else 0.0
        self._counted = now

    def report_progress(self, message: str, now: bool = False) -> None:
        """Report the progress of each active cell, at most every REPORT_EVERY seconds unless `now`."""
        if now or time.perf_counter() - self._reported >= REPORT_EVERY:
            self._reported = time.perf_counter()
            for run in self.at_work():
                run.report_progress(message)


def stacked(batches: Sequence[Batch]) -> Batch:
    """Return a batch with fields [P ...], or the batch itself if all members share one."""
    if len(batches) == 1:
        return batches[0]
    return joined(lambda *members: torch.stack(members), *batches)
