"""The steps of one cell that trains alone."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from zoo.config.settings import TrainerConfig
from zoo.kernels.linear_cross_entropy import linear_cross_entropy
from zoo.model import SequenceModel
from zoo.tasks.base import Batch
from zoo.training.cohort import Cohort
from zoo.training.loop import Ended, Loop, Ran
from zoo.training.optimizer import make_optimizer
from zoo.training.step import Stepper, state_of
from zoo.training.train_state import Begun, State


class Learner(Loop):
    """A loop of one."""

    def __init__(
        self,
        begun: Begun,
        trainer: TrainerConfig,
        ran: Ran,
        ended: Ended,
    ) -> None:
        super().__init__(Cohort([begun]), trainer, ran, ended)
        self.begun, self.model = begun, begun.model
        self.stepper: Stepper | None = None  # from the first step on

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optim = self.begun.cell.optim
        optimizer = make_optimizer(self.model, optim, self.begun.cell.lr)
        if self.begun.optimizer_state is not None:
            optimizer.load_state_dict(self.begun.optimizer_state)
        self.stepper = Stepper(self.pace.step, self.model, optimizer, self._loss, optim.grad_clip)
        return optimizer

    def _loss(self, *batch: Tensor) -> Tensor:
        return answers_loss(self.model, Batch.of(*batch))

    @property
    def computing(self) -> nn.Module:
        return self.model

    @property
    def step_form(self) -> str:
        assert self.stepper is not None
        return self.stepper.form

    def take(self, batch: Batch, draws: list[int], rates: list[float]) -> Tensor:
        assert self.stepper is not None
        self._seed(draws[0])
        return self.stepper(batch.tensors, rates[0])

    def _seed(self, seed: int) -> None:
        """Not torch.manual_seed: where CUDA sleeps, that notes the call and its stack trace, each time."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def answer_states(self, batch: Batch) -> Sequence[Tensor]:
        return [answer_states(self.model, batch)]

    def saved_states(self) -> Iterator[tuple[Begun, State, State | None]]:
        state = self.begun.optimizer_state
        if self.stepper is not None:
            state = state_of(self.stepper.optimizer, self.begun.lr_at(self.begun.position.step - 1))
        yield self.begun, self.model.state_dict(), state


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
