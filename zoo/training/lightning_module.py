"""The training of one cell as Lightning sees it: steps, evaluations and checkpoints.

Where the cell stands (`zoo.training.train_state.Position`) is ours, not Lightning's: a resumed cell is a
fresh fit over the batches that remain, so nothing depends on how a Lightning version restores its loops.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from zoo import interrupts
from zoo.kernels.linear_cross_entropy import answer_scores, linear_cross_entropy
from zoo.model import SequenceModel
from zoo.tasks.base import Batch
from zoo.training.loop import DOING, Loop, Pace
from zoo.training.optimizer import make_optimizer
from zoo.training.step import Stepper, state_of
from zoo.training.train_state import Journal

Save = Callable[[dict[str, Any] | None, str | None], None]  # the optimizer's state; the form of its steps


class Learner(Loop):
    """step: trainer.step.  optimizer_state: to start from.  save: writes the checkpoint."""

    def __init__(
        self,
        model: SequenceModel,
        journal: Journal,
        *,
        step: str = "auto",
        pace: Pace,
        save: Save,
        optimizer_state: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(pace)
        self.model, self.journal, self._asked = model, journal, step
        self.stepper: Stepper | None = None  # from the first step on
        self._save, self.optimizer_state = save, optimizer_state

    @property
    def form(self) -> str | None:
        """How steps are taken, see zoo.training.step; None: none was."""
        return self.stepper.form if self.stepper else None

    def at_work(self) -> list[Journal]:
        return [self.journal]

    # one step ------------------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        config = self.journal.config
        optimizer = make_optimizer(self.model, config, self.journal.lr)
        if self.optimizer_state is not None:
            optimizer.load_state_dict(self.optimizer_state)
        self.stepper = Stepper(self._asked, self.model, optimizer, self._loss, config.grad_clip)
        return optimizer

    def _loss(self, *batch: Tensor) -> Tensor:
        return answers_loss(self.model, Batch.of(*batch))

    def batches(self) -> Iterator[tuple[int, Batch]]:
        return self.journal.batches()

    def training_step(self, item: tuple[int, Batch], index: int) -> None:
        del index
        segment, batch = item
        step = self.journal.position.step
        self._seed(self.journal.draws_at(step))
        assert self.stepper is not None
        loss = self.stepper(batch.tensors, self.journal.lr_at(step))
        self.took(step + 1, segment, batch.answers, loss)

    def rows(self, item: tuple[int, Batch]) -> int:
        return item[1].inputs.shape[0]

    def hear(self, step: int, segment: int, answers: int, loss: float) -> None:
        """Diverged at the first loss that is not finite."""
        self.journal.hear(step, segment, answers, loss)

    def _seed(self, seed: int) -> None:
        """Not torch.manual_seed: where CUDA sleeps, that notes the call and its stack trace, each time."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def write(self) -> None:
        state = self.optimizer_state
        if self.stepper is not None:
            state = state_of(self.stepper.optimizer, self.journal.lr_at(self.journal.position.step - 1))
        self._save(state, self.form)

    # epochs and evaluations ----------------------------------------------------------------------------

    def on_train_epoch_start(self) -> None:
        self.journal.begin_training()

    def on_validation_epoch_start(self) -> None:
        self.journal.begin_evaluation()

    def on_validation_epoch_end(self) -> None:
        if self.journal.end_validation():
            self.trainer.should_stop = True

    def on_train_epoch_end(self) -> None:
        self.save()
        self.journal.tell("training", now=True)
        interrupts.check()

    def on_test_epoch_start(self) -> None:
        self.journal.begin_evaluation()

    def on_test_epoch_end(self) -> None:
        self.journal.end_test()

    def evaluate(self, split: str, item: tuple[int, Batch]) -> None:
        segment, batch = item
        states = answer_states(self.model, batch)
        scores = answer_scores(states, self.model.head_weight, batch.answers.flatten())
        self.journal.score(split, segment, batch, *scores)
        self.journal.tell(DOING[split])


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
