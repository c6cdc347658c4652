"""Take the steps of a cell that trains alone."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from zoo.model import SequenceModel
from zoo.tasks.base import Batch
from zoo.training.loss import answer_states, answers_loss
from zoo.training.optimizer import make_optimizer
from zoo.training.runs import Run
from zoo.training.step import Stepper, state_of
from zoo.training.train_state import State


class SingleStep:
    """Takes the steps of one model; the other kind of `zoo.training.learner.Step` is a population's."""

    def __init__(self, run: Run) -> None:
        self.run, self.model = run, run.model

    @property
    def computing(self) -> SequenceModel:
        """Return the model that computes."""
        return self.model

    @cached_property
    def stepper(self) -> Stepper:
        """Return the stepper, made when training begins: then Lightning has put the model on its device."""
        cell = self.run.cell
        optimizer = make_optimizer(self.model, cell.optim, cell.lr)
        if self.run.optimizer_state is not None:
            optimizer.load_state_dict(self.run.optimizer_state)
        return Stepper(cell.trainer.step, self.model, optimizer, self._loss, cell.optim.grad_clip)

    def _loss(self, *batch: Tensor) -> Tensor:
        return answers_loss(self.model, Batch.of(*batch))

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer of the model's weights."""
        return self.stepper.optimizer

    @property
    def form(self) -> str:
        """Return the form of the steps, for the record."""
        return self.stepper.form

    def __call__(self, batch: Batch, seeds: Sequence[int], rates: Sequence[float]) -> Tensor:
        """Take one step at the rate; return its loss, on the device."""
        _seed(seeds[0], self.model.embedding.device)
        return self.stepper(batch.tensors, rates[0])

    def answer_states(self, batch: Batch) -> Sequence[Tensor]:
        """Return the hidden states at the answers."""
        return [answer_states(self.model, batch)]

    def states(self, member: int, rate: float) -> tuple[State, State | None]:
        """Return the states of model and optimizer after a step at `rate`; if this process has made no
        optimizer, its state is the checkpoint's."""
        del member
        made = "stepper" in self.__dict__
        return self.model.state_dict(), state_of(self.optimizer, rate) if made else self.run.optimizer_state

    def freeze(self, member: int) -> None:
        """Do nothing: the only cell has ended, and no step follows."""

    def overwrite(self, member: int, like: int) -> None:
        """Do nothing: there is no other member whose weights it could take."""


def _seed(seed: int, device: torch.device) -> None:
    """Seed torch's generators; torch.manual_seed would keep a stack trace per call until CUDA is in use."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
