"""The training of one cell as Lightning sees it: steps, evaluations and checkpoints.

Where the cell stands (`zoo.journal.Position`) is ours, not Lightning's: a resumed cell is a fresh fit over
the batches that remain, so nothing depends on how a Lightning version restores its loops.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from zoo.journal import Journal
from zoo.kernels.linear_cross_entropy import answer_scores, linear_cross_entropy
from zoo.model import SequenceModel
from zoo.optimizer import make_optimizer
from zoo.outcome import Terminated
from zoo.step import Stepper, state_of
from zoo.tasks.base import Batch

LOOK_EVERY = {"cpu": 1}  # steps between two looks at the losses; each look waits for a GPU
LOOK_EVERY_ELSEWHERE = 50


class Learner(pl.LightningModule):
    """step: trainer.step.  optimizer_state: to start from.  save: called at every epoch's end and every
    `checkpoint_every` steps, with the optimizer's state."""

    def __init__(
        self,
        model: SequenceModel,
        journal: Journal,
        *,
        step: str = "auto",
        checkpoint_every: int,
        save: Callable[[dict[str, Any]], None],
        optimizer_state: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # the whole step is the Stepper's
        self.model, self.journal, self._asked = model, journal, step
        self.stepper: Stepper | None = None  # from the first step on
        self.checkpoint_every, self._save, self.optimizer_state = checkpoint_every, save, optimizer_state
        self._unread: list[tuple[int, int, int, Tensor]] = []  # step, segment, answers, loss on the device

    # one step ------------------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        config = self.journal.config
        optimizer = make_optimizer(self.model, config, self.journal.lr)
        if self.optimizer_state is not None:
            optimizer.load_state_dict(self.optimizer_state)
        self.stepper = Stepper(self._asked, self.model, optimizer, self._loss, config.grad_clip)
        return optimizer

    def _loss(self, *batch: Tensor) -> Tensor:
        return answers_loss(self.model, Batch(*batch))

    def batches(self) -> Iterator[tuple[int, Batch]]:
        return self.journal.batches()

    def training_step(self, item: tuple[int, Batch], index: int) -> None:
        del index
        segment, batch = item
        step = self.journal.position.step
        self._seed(self.journal.draws_at(step))
        assert self.stepper is not None
        loss = self.stepper(batch, self.journal.lr_at(step))
        self._unread.append((step + 1, segment, batch.answers.numel(), loss))
        if len(self._unread) >= look_every(loss.device):
            self.read_losses()

    def _seed(self, seed: int) -> None:
        """Not torch.manual_seed: where CUDA sleeps, that notes the call and its stack trace, each time."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def read_losses(self) -> None:
        """Fetch what the device has computed; Diverged at the first loss that is not finite."""
        if not self._unread:
            return
        losses = torch.stack([loss for *_, loss in self._unread]).tolist()
        unread, self._unread = self._unread, []
        for (step, segment, answers, _), loss in zip(unread, losses, strict=True):
            self.journal.hear(step, segment, answers, loss)

    def on_train_batch_end(self, outputs: Any, batch: tuple[int, Batch], batch_idx: int) -> None:
        del outputs, batch_idx
        journal = self.journal
        if journal.stepped(examples=batch[1].inputs.shape[0]):
            self.read_losses()
            journal.flush()
        journal.clock()
        journal.tell("training")
        due = journal.position.step % self.checkpoint_every == 0 or self.trainer.received_sigterm
        if due and not journal.ends_epoch:
            self.read_losses()
            self.save()
        self.stop_if_told()

    def save(self) -> None:
        assert self.stepper is not None
        rate = self.journal.lr_at(self.journal.position.step - 1)
        self._save(state_of(self.stepper.optimizer, rate))

    # epochs and evaluations ----------------------------------------------------------------------------

    def on_train_epoch_start(self) -> None:
        self.journal.begin_training()

    def on_validation_epoch_start(self) -> None:
        self.journal.begin_evaluation()

    def validation_step(self, item: tuple[int, Batch], index: int) -> None:
        del index
        self._evaluate("valid", item)
        self.journal.tell("validating")

    def on_validation_epoch_end(self) -> None:
        if self.journal.end_validation():
            self.trainer.should_stop = True

    def on_train_epoch_end(self) -> None:
        self.save()
        self.journal.tell("training", now=True)
        self.stop_if_told()

    def on_test_epoch_start(self) -> None:
        self.journal.begin_evaluation()

    def test_step(self, item: tuple[int, Batch], index: int) -> None:
        del index
        self._evaluate("test", item)
        self.journal.tell("testing")
        self.stop_if_told()

    def on_test_epoch_end(self) -> None:
        self.journal.end_test()

    def _evaluate(self, split: str, item: tuple[int, Batch]) -> None:
        segment, batch = item
        states = answer_states(self.model, batch)
        scores = answer_scores(states, self.model.head_weight, batch.answers.flatten())
        self.journal.score(split, segment, batch, *scores)

    def stop_if_told(self) -> None:
        """Lightning only notes a SIGTERM, and then leaves with exit code 0."""
        if self.trainer.received_sigterm:
            raise Terminated


def look_every(device: torch.device) -> int:
    """Steps between two looks at the losses."""
    return LOOK_EVERY.get(device.type, LOOK_EVERY_ELSEWHERE)


def answer_states(model: SequenceModel, batch: Batch) -> Tensor:
    """Hidden states [B * A, D] where answers are asked for."""
    return model(batch.inputs, batch.positions).flatten(0, 1)


def answers_loss(model: SequenceModel, batch: Batch) -> Tensor:
    """Mean cross-entropy over the answers: the same, with the same gradients, as all logits and a mask."""
    states, answers = answer_states(model, batch), batch.answers.flatten()
    if not model.bf16_head:
        return linear_cross_entropy(states, model.head_weight, answers)
    with torch.autocast(states.device.type, torch.bfloat16):
        return linear_cross_entropy(states, model.head_weight, answers)
