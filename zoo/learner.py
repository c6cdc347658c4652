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
from zoo.tasks.base import Batch

LOOK_EVERY = {"cpu": 1}  # steps between two looks at the losses; each look waits for a GPU
LOOK_EVERY_ELSEWHERE = 50


class Learner(pl.LightningModule):
    """optimizer_state: to start from.  save: called at every epoch's end and every `checkpoint_every` steps,
    with the optimizer's state."""

    def __init__(
        self,
        model: SequenceModel,
        journal: Journal,
        *,
        checkpoint_every: int,
        save: Callable[[dict[str, Any]], None],
        optimizer_state: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.journal = model, journal
        self.checkpoint_every, self._save, self.optimizer_state = checkpoint_every, save, optimizer_state
        self._unread: list[tuple[int, int, int, Tensor]] = []  # step, segment, answers, loss on the device

    # one step ------------------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = make_optimizer(self.model, self.journal.config, self.journal.lr)
        if self.optimizer_state is not None:
            optimizer.load_state_dict(self.optimizer_state)
        return optimizer

    def batches(self) -> Iterator[tuple[int, Batch]]:
        return self.journal.batches()

    def training_step(self, item: tuple[int, Batch], index: int) -> Tensor:
        del index
        segment, batch = item
        step = self.journal.position.step
        self._seed(self.journal.draws_at(step))
        for group in self._optimizer.param_groups:
            group["lr"] = self.journal.lr_at(step)
        loss = answers_loss(self.model, batch)
        self._unread.append((step + 1, segment, batch.answers.numel(), loss.detach()))
        if len(self._unread) >= look_every(loss.device):
            self.read_losses()
        return loss

    @property
    def _optimizer(self) -> torch.optim.Optimizer:
        return self.optimizers(use_pl_optimizer=False)  # pyright: ignore[reportReturnType]

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

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """By the norm of all gradients; our own because Lightning's refuses a fused optimizer on a GPU."""
        del gradient_clip_val, gradient_clip_algorithm
        if self.journal.config.grad_clip is not None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self.journal.config.grad_clip)

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
        self._save(self._optimizer.state_dict())

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
