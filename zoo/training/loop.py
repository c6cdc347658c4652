"""What one cell and a population do alike while they train: read losses, save, stop where nothing is lost."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytorch_lightning as pl
import torch
from torch import Tensor

from zoo import interrupts
from zoo.tasks.base import IGNORED
from zoo.training.train_state import Journal

LOOK_EVERY = {"cpu": 1}  # steps between two looks at the losses; each look waits for a GPU
LOOK_EVERY_ELSEWHERE = 50
DOING = {"valid": "validating", "test": "testing"}


class Pace(Protocol):
    """When to save: after so many steps, or so many seconds (`zoo.config.settings.TrainerConfig`)."""

    @property
    def checkpoint_every(self) -> int: ...
    @property
    def checkpoint_seconds(self) -> float: ...


class Loop(pl.LightningModule):
    """The hooks of Lightning that do not depend on how a step is taken.

    Saved is at every epoch's end, at the `pace`, and on Ctrl-C and SIGTERM, which end the work at the next
    step of training, batch of an evaluation or end of an epoch.
    """

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.automatic_optimization = False  # the whole step is ours
        self.pace = pace
        self._saved = time.monotonic()
        self._unread: list[
            tuple[int, int, Tensor, Tensor]
        ] = []  # step, segment, answers, losses: on the device

    def at_work(self) -> list[Journal]:
        """Of those that have steps left, all at the same step."""
        raise NotImplementedError

    def batches(self) -> Iterator[Any]:
        """The rest of the epoch at hand, however long."""
        raise NotImplementedError

    def rows(self, item: Any) -> int:
        """Examples in what `batches` yields, of each cell."""
        raise NotImplementedError

    def hear(self, step: int, segment: int, answers: Any, loss: Any) -> None:
        """What a step has come to, as numbers: how many answers it had, and their mean loss."""
        raise NotImplementedError

    def write(self) -> None:
        """The checkpoints of all that are at work."""
        raise NotImplementedError

    def evaluate(self, split: str, item: Any) -> None:
        raise NotImplementedError

    # steps ---------------------------------------------------------------------------------------------

    def took(self, step: int, segment: int, answers: Tensor, loss: Tensor) -> None:
        """One more step, counted from 1.  answers: [B A] or [P B A]; loss: of one cell, or [P]; unread."""
        self._unread.append((step, segment, answers, loss))
        if len(self._unread) >= look_every(loss.device):
            self.read_losses()

    def read_losses(self) -> None:
        """Fetch what the device has computed."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        losses = torch.stack([loss for *_, loss in unread]).tolist()
        counts = [(answers != IGNORED).sum((-2, -1)).expand_as(loss) for *_, answers, loss in unread]
        for (step, segment, *_), count, loss in zip(
            unread, torch.stack(counts).tolist(), losses, strict=True
        ):
            self.hear(step, segment, count, loss)

    def on_train_start(self) -> None:
        interrupts.listen()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        del outputs, batch_idx
        flush = all([journal.stepped(self.rows(batch)) for journal in self.at_work()])
        if flush:
            self.read_losses()
        for journal in self.at_work():
            if flush:
                journal.flush()
            journal.clock()
            journal.tell("training")
        if self._due():
            self.save()
        interrupts.check()

    def _due(self) -> bool:
        if interrupts.told() or time.monotonic() - self._saved >= self.pace.checkpoint_seconds:
            return True
        first = self.at_work()[0]
        return first.position.step % self.pace.checkpoint_every == 0 and not first.ends_epoch

    def save(self) -> None:
        self.read_losses()
        with interrupts.after():
            self.write()
        self._saved = time.monotonic()

    # epochs and evaluations ----------------------------------------------------------------------------

    def on_validation_start(self) -> None:
        interrupts.listen()

    def on_test_start(self) -> None:
        interrupts.listen()

    def validation_step(self, item: Any, index: int) -> None:
        del index
        if interrupts.told():
            self.save()
            interrupts.check()
        self.evaluate("valid", item)

    def test_step(self, item: Any, index: int) -> None:
        del index
        interrupts.check()  # what the test needs lies in the last checkpoint
        self.evaluate("test", item)


class Batches:
    """What Lightning iterates over: each time, what there is then."""

    def __init__(self, batches: Callable[[], Iterable[Any]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches())


def fit(loop: Loop, trainer: pl.Trainer, validation: Iterable[Any]) -> None:
    """What is left of training, from the validation of the last epoch on if that was cut off."""
    with _stoppable():
        if loop.at_work()[0].position.to_validate:
            trainer.validate(loop, validation, verbose=False)
            loop.on_train_epoch_end()
        if loop.at_work()[0].steps_left:
            trainer.fit(loop, Batches(loop.batches), validation)


def test(loop: Loop, trainer: pl.Trainer, batches: Iterable[Any]) -> None:
    with _stoppable():
        trainer.test(loop, batches, verbose=False)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Lightning answers a KeyboardInterrupt with sys.exit(1), and a SIGTERM that it heard with sys.exit()."""
    with interrupts.attended(), interrupts.later():
        try:
            yield
        except SystemExit:
            interrupts.check()
            raise


def look_every(device: torch.device) -> int:
    """Steps between two looks at the losses."""
    return LOOK_EVERY.get(device.type, LOOK_EVERY_ELSEWHERE)
