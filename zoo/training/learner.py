"""Train through Lightning: steps, evaluations, checkpoints, and ends at which no progress is lost.

The position of a cell (`zoo.training.train_state.Position`) is ours, not Lightning's: a resumed cell is a
fresh fit over the batches that remain, so nothing depends on how a Lightning version restores its loops.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.callbacks import Checkpoint
from torch import Tensor

from zoo.common import interrupts
from zoo.kernels.choice import Choice
from zoo.kernels.linear_cross_entropy import answer_scores
from zoo.model import SequenceModel
from zoo.tasks.base import Batch
from zoo.training.conclusion import conclude
from zoo.training.runs import Item, Run, Runs, stacked
from zoo.training.train_state import State

STEPS_AT_ONCE = 16
DOING = {"valid": "validating", "test": "testing"}


class AllEnded(Exception):
    """No cell has a step left."""


class Step(Protocol):
    """Takes steps of training on the model of one cell, or on the models of a population as one."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer of all members; must not be read before the model is on its device."""
        ...

    @property
    def computing(self) -> SequenceModel:
        """Return the model that is switched between training and evaluation."""
        ...

    @property
    def form(self) -> str:
        """Name the form of the steps for the record: plain, compiled or recorded."""
        ...

    def __call__(self, batch: Batch, seeds: Sequence[int], rates: Sequence[float]) -> Tensor:
        """Take one step; return the losses on the device: [P], or a scalar of a single cell.

        batch: fields stacked [P B ...], or [B ...] if all members share it.  seeds, rates: each member's.
        """
        ...

    def answer_states(self, batch: Batch) -> Sequence[Tensor]:
        """Return the last hidden states [B * A, D] of each member, where answers are asked for."""
        ...

    def states(self, member: int, rate: float) -> tuple[State, State | None]:
        """Return the states of a member's model and optimizer after a step at `rate`, as of a lone cell."""
        ...

    def freeze(self, member: int) -> None:
        """Let no further step move the member."""
        ...

    def overwrite(self, member: int, like: int) -> None:
        """Give a member that has diverged the weights of another, since its own no longer matter."""
        ...


class Learner(pl.LightningModule):
    """Takes training steps, evaluates and saves, with the positions and scores in `runs`.

    It saves as often as the cell's trainer says, at every epoch's end, and on Ctrl-C and SIGTERM, which end
    the work at the next step of training, batch of an evaluation or end of an epoch.
    choice: records which implementations of the ops run.
    """

    def __init__(self, runs: Runs, step: Step, choice: Choice) -> None:
        super().__init__()
        self.automatic_optimization = False  # the whole step is ours
        self.runs, self.step, self.pace = runs, step, runs.first.cell.trainer
        if len(runs.members) == 1:  # Lightning must not move a population's models, rows of one tensor
            self.model = step.computing
        for run in runs.at_work():  # implementations that ran before the checkpoint count too
            for op, names in run.position.kernels.items():
                choice.ran.setdefault(op, set()).update(names.split("+"))
        self.ran = choice.record
        self.lightning = _lightning(runs.first)
        self._saved, self._stepped = time.monotonic(), False

    @property
    def form(self) -> str | None:
        """Name the form of the steps for the record; None: none was taken."""
        return self.step.form if self._stepped else None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer, which the step owns."""
        return self.step.optimizer

    # steps -------------------------------------------------------------------------------------------------

    def training_step(self, items: Sequence[Item], index: int) -> Tensor:
        """Take a step on the batches of each item; return the loss of the last."""
        del index
        losses = [self._train_on(item) for item in items]
        # `trainer.global_step` reads this; Lightning itself only counts steps of optimizers that it wrapped
        progress = self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
        progress.total.completed = self.runs.first.position.step
        return losses[-1]

    def _train_on(self, item: Item) -> Tensor:
        """Take one step, save where it is time, and end where a signal asks for it."""
        segment, batch = item[0], stacked(item[1])
        self._stepped, step = True, self.runs.first.position.step
        seeds = [run.seed_at(step) for run in self.runs.members]
        rates = [run.lr_at(step) for run in self.runs.members]
        losses = self.step(batch, seeds, rates)
        self.runs.record_step(step + 1, segment, batch.answers, losses)
        self._finish_members()
        self.runs.count_step(item[1][0].inputs.shape[0])
        self._finish_members()
        self.runs.count_time(training=True)
        self.runs.report_progress("training")
        if self._due():
            self.save()
        interrupts.check()
        return losses

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Return the batch: streams make it on the trainer's device."""
        del device, dataloader_idx
        return batch

    def _due(self) -> bool:
        if interrupts.requested() or time.monotonic() - self._saved >= self.pace.checkpoint_seconds:
            return True
        first = self.runs.first
        return first.position.step % self.pace.checkpoint_every == 0 and not first.ends_epoch

    def save(self) -> None:
        """Write a checkpoint of each cell at work."""
        self.runs.read_losses()
        self._finish_members()
        self.runs.count_time()
        with interrupts.after():
            for member in self.runs.active:
                run = self.runs.members[member]
                states = self.step.states(member, run.lr_at(max(run.position.step - 1, 0)))
                run.save(*states, self.ran(), self.form)
        self._saved = time.monotonic()

    def _finish_members(self) -> None:
        """Finish with the members that have ended.  AllEnded: no other member is left."""
        ended, self.runs.ended = self.runs.ended, []
        diverged = [member for member in ended if self.runs.members[member].diverged is not None]
        for member in ended:
            self.step.freeze(member)
        for member in diverged:
            conclude(self.runs.members[member], self.ran(), self.form)
        if not self.runs.active:
            raise AllEnded
        for member in diverged:
            self.step.overwrite(member, like=self.runs.active[0])

    def conclude(self) -> None:
        """Give every cell that was tested its outcome."""
        ran = self.ran()  # before the first outcome measures decoding, which is not training
        for member in self.runs.sound:
            conclude(self.runs.members[member], ran, self.form)

    # epochs and evaluations --------------------------------------------------------------------------------

    def on_train_start(self) -> None:
        interrupts.listen()

    on_validation_start = on_test_start = on_train_start

    def on_train_epoch_start(self) -> None:
        self.step.computing.train()
        self.runs.count_time()

    def on_train_epoch_end(self) -> None:
        """Save, report and close the epoch; end where a signal asks for it."""
        self.save()
        self.runs.report_progress("training", now=True)
        self.runs.end_epoch()
        self._finish_members()
        interrupts.check()

    def on_validation_epoch_start(self) -> None:
        """Switch to evaluation and empty the counts, where this epoch validates."""
        if not self.runs.first.position.to_validate:
            return
        self.step.computing.eval()
        self.runs.begin_evaluation()

    def on_validation_epoch_end(self) -> None:
        """Record the scores of the validation split."""
        if not self.runs.first.position.to_validate:
            return
        self.step.computing.train()
        self.runs.end_validation()
        self._finish_members()
        if self.pace.callbacks:
            self.log_dict(self.runs.first.monitored(), logger=False)

    def on_test_epoch_start(self) -> None:
        """Switch to evaluation and empty the counts."""
        self.step.computing.eval()
        self.runs.begin_evaluation()

    def on_test_epoch_end(self) -> None:
        """Record the scores of the test split."""
        self.runs.end_test()

    def validation_step(self, item: Item, index: int) -> None:
        """Count the answers of a batch of the validation split."""
        del index
        if interrupts.requested():
            self.save()
            interrupts.check()
        self._evaluate("valid", item)

    def test_step(self, item: Item, index: int) -> None:
        """Count the answers of a batch of the test split."""
        del index
        interrupts.check()  # the last checkpoint holds all that the test needs
        self._evaluate("test", item)

    def _evaluate(self, split: str, item: Item) -> None:
        """Score a batch: the states of all members at once, but the head for one member at a time, since the
        logits of all may not fit into memory."""
        segment, batches = item
        states = self.step.answer_states(stacked(batches))
        for member in self.runs.active:
            batch = batches[member % len(batches)]
            weight = self.runs.members[member].model.head_weight.to(states[member].device)
            scores = answer_scores(states[member], weight, batch.answers.flatten())
            self.runs.count_answers(split, segment, member, batch, *scores)
        self.runs.report_progress(DOING[split])


def together(items: Iterator[Item], at_once: int) -> Iterator[list[Item]]:
    """Group items for Lightning, `at_once` each: what it does around a step costs as much as a small step."""
    while group := list(islice(items, at_once)):
        yield group


class Batches:
    """Batches for Lightning: the function makes them anew for each iteration."""

    def __init__(self, batches: Callable[[], Iterable[Any]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches())


def fit(learner: Learner) -> None:
    """Train and validate; first repeat the validation of the last epoch if it was interrupted.

    Lightning asks for a validation after each epoch of this fit, and gets no batches where none is due.
    """
    runs, lightning = learner.runs, learner.lightning
    at_once = 1 if runs.first.callbacks else STEPS_AT_ONCE  # a user's callbacks are called after every step
    train = Batches(lambda: together(runs.batches(), at_once))
    valid = Batches(lambda: runs.evaluated("valid") if runs.first.position.to_validate else ())
    try:
        with _stoppable():
            if runs.first.position.to_validate:
                lightning.validate(learner, valid, verbose=False)
                learner.on_train_epoch_end()
            if runs.first.steps_left:
                lightning.fit(learner, train, valid)
            if lightning.should_stop:  # a callback asked for it
                runs.stop_early()
                if runs.first.position.to_validate:
                    lightning.validate(learner, valid, verbose=False)
                learner.save()
    except AllEnded:
        learner.lightning = _lightning(runs.members[0])  # a Lightning trainer that has raised is not reusable


def test(learner: Learner) -> None:
    """Test the cells that have not diverged."""
    runs = learner.runs
    runs.begin_test()
    if runs.sound:
        with _stoppable():
            learner.lightning.test(learner, Batches(lambda: runs.evaluated("test")), verbose=False)
    runs.count_time()


def _lightning(run: Run) -> pl.Trainer:
    """Make Lightning's trainer for the epochs that are left, without displays.

    It writes no checkpoints, except through a callback of the user's.
    """
    trainer = run.cell.trainer
    return pl.Trainer(
        accelerator=trainer.accelerator,
        devices=1,
        precision=trainer.layers,
        max_epochs=run.cell.optim.max_epochs - run.epochs,
        logger=run.loggers or False,
        callbacks=[*run.callbacks],
        default_root_dir=run.folder,
        plugins=[LightningEnvironment()],  # Lightning must not requeue jobs on a cluster: zoo does
        num_sanity_val_steps=0,
        enable_checkpointing=any(isinstance(each, Checkpoint) for each in run.callbacks),
        enable_model_summary=False,
        enable_progress_bar=False,
        inference_mode=False,  # a mixer may cache tensors made in evaluation and use them in training
    )


@contextmanager
def _stoppable() -> Iterator[None]:
    """Keep Lightning from answering a KeyboardInterrupt with sys.exit(1), and a SIGTERM with sys.exit()."""
    with interrupts.attended(), interrupts.later():
        try:
            yield
        except SystemExit:
            interrupts.check()
            raise
