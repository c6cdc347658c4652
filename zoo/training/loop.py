"""Training as Lightning sees it: steps, evaluations, checkpoints, and ends where nothing is lost.

Where cells stand (`zoo.training.train_state.Position`) is ours, not Lightning's: a resumed cell is a fresh
fit over the batches that remain, so nothing depends on how a Lightning version restores its loops.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from torch import Tensor, nn

from zoo import interrupts
from zoo.config.settings import TrainerConfig
from zoo.kernels.linear_cross_entropy import answer_scores
from zoo.results.record import Outcome
from zoo.tasks.base import Batch
from zoo.training.cohort import Cohort, Item, stacked
from zoo.training.loggers import closed
from zoo.training.outcome import outcome
from zoo.training.train_state import Begun, State

Ran = Callable[[], dict[str, str]]
Ended = Callable[[int, Outcome], None]
DOING = {"valid": "validating", "test": "testing"}


class AllEnded(Exception):
    """No cell has a step left."""


class Loop(pl.LightningModule):
    """All of it but how a step is taken.

    pace: how often to save; beside that, at every epoch's end, and on Ctrl-C and SIGTERM, which end the work
    at the next step of training, batch of an evaluation or end of an epoch.
    ran: tells which implementations of the ops have run.
    ended: hears each member's outcome when it has one.
    """

    def __init__(self, cohort: Cohort, pace: TrainerConfig, ran: Ran, ended: Ended) -> None:
        super().__init__()
        self.automatic_optimization = False  # the whole step is ours
        self.cohort, self.pace, self.ran, self._ended = cohort, pace, ran, ended
        self._saved, self._stepped = time.monotonic(), False

    # how a step is taken -----------------------------------------------------------------------------------

    @property
    def computing(self) -> nn.Module:
        """What is put into training or evaluation."""
        raise NotImplementedError

    @property
    def step_form(self) -> str:
        """See zoo.training.step."""
        raise NotImplementedError

    def take(self, batch: Batch, draws: list[int], rates: list[float]) -> Tensor:
        """One step; losses on the device, [P] or of one cell.

        batch: fields stacked [P B ...], or [B ...] of one that all share.  draws, rates: each member's.
        """
        raise NotImplementedError

    def answer_states(self, batch: Batch) -> Sequence[Tensor]:
        """The last hidden states [B * A, D] of each member, where answers are asked for."""
        raise NotImplementedError

    def saved_states(self) -> Iterator[tuple[Begun, State, State | None]]:
        """Each cell at work, with the states of its model and optimizer as it would have them alone."""
        raise NotImplementedError

    def halt(self, member: int) -> None:
        """No step may move it any more."""

    def park(self, member: int) -> None:
        """It has diverged: what its weights are no longer matters."""

    # steps -------------------------------------------------------------------------------------------------

    @property
    def form(self) -> str | None:
        """How steps are taken, for the record; None: none was."""
        return self.step_form if self._stepped else None

    def training_step(self, item: Item, index: int) -> Tensor:
        del index
        segment, batch = item[0], stacked(item[1])
        self._stepped, step = True, self.cohort.first.position.step
        draws = [begun.draws_at(step) for begun in self.cohort.members]
        rates = [begun.lr_at(step) for begun in self.cohort.members]
        losses = self.take(batch, draws, rates)
        self.cohort.took(step + 1, segment, batch.answers, losses)
        self._take_leave()
        # what `trainer.global_step` reads; Lightning counts steps of optimizers that it has wrapped
        self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress.total.completed = step + 1
        return losses

    def on_train_batch_end(self, outputs: Any, batch: Item, batch_idx: int) -> None:
        del outputs, batch_idx
        self.cohort.stepped(batch[1][0].inputs.shape[0])
        self._take_leave()
        self.cohort.count_time(training=True)
        self.cohort.tell("training")
        if self._due():
            self.save()
        interrupts.check()

    def _due(self) -> bool:
        if interrupts.told() or time.monotonic() - self._saved >= self.pace.checkpoint_seconds:
            return True
        first = self.cohort.first
        return first.position.step % self.pace.checkpoint_every == 0 and not first.ends_epoch

    def save(self) -> None:
        """A checkpoint of each cell at work."""
        self.cohort.read_losses()
        self._take_leave()
        self.cohort.count_time()
        with interrupts.after():
            for begun, model, optimizer in self.saved_states():
                begun.save(model, optimizer, self.ran(), self.form)
        self._saved = time.monotonic()

    def _take_leave(self) -> None:
        """Of the members that have ended since."""
        left, self.cohort.left = self.cohort.left, []
        diverged = [member for member in left if self.cohort.members[member].diverged is not None]
        for member in left:
            self.halt(member)
        for member in diverged:
            self.conclude(member, self.ran())
        if not self.cohort.active:
            raise AllEnded
        for member in diverged:
            self.park(member)

    def conclude(self, member: int, ran: dict[str, str]) -> None:
        begun = self.cohort.members[member]
        begun.write_metrics()
        self._ended(member, outcome(begun, ran, self.form))

    # epochs and evaluations --------------------------------------------------------------------------------

    def on_train_start(self) -> None:
        interrupts.listen()

    def on_validation_start(self) -> None:
        interrupts.listen()

    def on_test_start(self) -> None:
        interrupts.listen()

    def on_train_epoch_start(self) -> None:
        self.computing.train()
        self.cohort.count_time()

    def on_train_epoch_end(self) -> None:
        self.save()
        self.cohort.tell("training", now=True)
        self.cohort.end_epoch()
        self._take_leave()
        interrupts.check()

    def on_validation_epoch_start(self) -> None:
        if not self.cohort.first.position.to_validate:
            return
        self.computing.eval()
        self.cohort.begin_evaluation()

    def on_validation_epoch_end(self) -> None:
        if not self.cohort.first.position.to_validate:
            return
        self.computing.train()
        self.cohort.end_validation()
        self._take_leave()
        if self.pace.callbacks:
            self.log_dict(self.cohort.first.monitored(), logger=False)

    def on_test_epoch_start(self) -> None:
        self.computing.eval()
        self.cohort.begin_evaluation()

    def on_test_epoch_end(self) -> None:
        self.cohort.end_test()

    def validation_step(self, item: Item, index: int) -> None:
        del index
        if interrupts.told():
            self.save()
            interrupts.check()
        self._evaluate("valid", item)

    def test_step(self, item: Item, index: int) -> None:
        del index
        interrupts.check()  # what the test needs lies in the last checkpoint
        self._evaluate("test", item)

    def _evaluate(self, split: str, item: Item) -> None:
        """States of all at once, the head one by one: the logits of one fit, and those of all may not."""
        segment, batches = item
        states = self.answer_states(stacked(batches))
        for member in self.cohort.active:
            batch = batches[member % len(batches)]
            weight = self.cohort.members[member].model.head_weight.to(states[member].device)
            scores = answer_scores(states[member], weight, batch.answers.flatten())
            self.cohort.count(split, segment, member, batch, *scores)
        self.cohort.tell(DOING[split])


class Batches:
    """What Lightning iterates over: each time, what there is then."""

    def __init__(self, batches: Callable[[], Iterable[Any]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches())


def run(loop: Loop) -> None:
    """What is left of training, then the test of those that have not diverged."""
    cohort, first = loop.cohort, loop.cohort.first
    with closed([logger for begun in cohort.members for logger in begun.loggers]):
        trainer = _lightning(first)
        try:
            with _stoppable():
                _fit(loop, trainer)
        except AllEnded:
            trainer = _lightning(first)  # one that has raised is not used again
        cohort.begin_test()
        if cohort.sound:
            with _stoppable():
                trainer.test(loop, Batches(lambda: cohort.evaluated("test")), verbose=False)
        cohort.count_time()
    ran = loop.ran()  # before the first outcome measures decoding, which is not training
    for member in cohort.sound:
        loop.conclude(member, ran)


def _lightning(begun: Begun) -> pl.Trainer:
    """For the epochs that are left; checkpoints, metrics and the display are not its job here."""
    trainer = begun.cell.trainer
    return pl.Trainer(
        accelerator=trainer.accelerator,
        devices=1,
        precision=trainer.layers,
        max_epochs=begun.cell.optim.max_epochs - begun.epochs,
        logger=begun.loggers or False,
        callbacks=[*begun.callbacks],
        default_root_dir=begun.folder,
        plugins=[LightningEnvironment()],  # one library requeues on a cluster, and it is not this one
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        inference_mode=False,  # a mixer may keep what it made in evaluation for training
    )


def _fit(loop: Loop, trainer: pl.Trainer) -> None:
    """From the validation of the last epoch on, if that was cut off.

    Lightning counts the epochs of this fit, not of the cell: it asks after each, and is given nothing where
    none is due.
    """
    valid = Batches(lambda: loop.cohort.evaluated("valid") if loop.cohort.first.position.to_validate else ())
    if loop.cohort.first.position.to_validate:
        trainer.validate(loop, valid, verbose=False)
        loop.on_train_epoch_end()
    if loop.cohort.first.steps_left:
        trainer.fit(loop, Batches(loop.cohort.batches), valid)
    if trainer.should_stop:  # a callback's wish
        loop.cohort.stop_early()
        loop.save()


@contextmanager
def _stoppable() -> Iterator[None]:
    """Lightning answers a KeyboardInterrupt with sys.exit(1), and a SIGTERM that it heard with sys.exit()."""
    with interrupts.attended(), interrupts.later():
        try:
            yield
        except SystemExit:
            interrupts.check()
            raise
