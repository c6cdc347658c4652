"""One training step of a whole population: forward, backward, clipping and update of every member.

Made so that a recording (`zoo.training.cuda_graphs`) can hold it: shapes never change, nothing is read back,
and what differs from step to step (learning rates, who has ended) lies in tensors that are written before it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.model import SequenceModel
from zoo.tasks.base import Batch
from zoo.training.cuda_graphs import Recorded, Restorable
from zoo.training.loss import answer_states, answers_loss
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack
from zoo.training.train_state import State


class PopulationStep:
    """Take the steps of all members of a stack; the other form of `zoo.training.learner.Step` is one cell's.

    asked: trainer.step, as `zoo.training.step.Stepper` takes it, but that populations are not compiled.

    ValueError, at a step: it cannot be taken as asked.
    """

    def __init__(self, stack: Stack, optimizer: PopulationAdamW, form: str = "auto") -> None:
        self.stack, self.optimizer, self.asked = stack, optimizer, form
        changing = Restorable(stack.template, self._held)
        how = "eager" if form == "compile" else form
        self._take = Recorded(self._step, changing, stack.weights.device.type, how)

    @property
    def form(self) -> str:
        """Name the form for the record: "graph", "eager", and where it is not recorded why, in brackets."""
        why = "populations are not compiled" if self.asked == "compile" else self._take.why
        return "graph" if self._take.recorded else f"eager ({why})" if why else "eager"

    def __call__(self, batch: Batch, seeds: Sequence[int], rates: Sequence[float]) -> Tensor:
        """Take one step; return the members' losses [P], on the device.

        seeds, rates: each member's, for this step.
        batch: fields stacked [P B ...], or [B ...] of one that all share.
        """
        self.stack.draws.begin(seeds)
        self.optimizer.set_rates(rates)
        return self._take(*batch.tensors)

    def _step(self, *batch: Tensor) -> Tensor:
        """Do what a recording holds; it changes `_held` and nothing else."""
        for leaf in self.stack.leaves:
            leaf.grad = None
        losses = self.stack.map(answers_loss, Batch.of(*batch))
        with torch.autocast(losses.device.type, enabled=False):  # what follows is rounded as the forward was
            losses.sum().backward()
            self.optimizer.step()
        return losses.detach()

    @property
    def computing(self) -> SequenceModel:
        """Return the model that computes for all members."""
        return self.stack.template

    def answer_states(self, batch: Batch) -> Sequence[Tensor]:
        """Return each member's hidden states at the answers."""
        return self.stack.map(answer_states, batch)

    def states(self, member: int, rate: float) -> tuple[State, State | None]:
        """Return the states that the member's model and optimizer would have alone after a step at `rate`."""
        self.stack.share_extra_state(member)
        model = self.stack.models[member].state_dict()
        for name, value in model.items():  # views of all members' weights, which would be saved whole
            model[name] = value.clone()
        return model, self.optimizer.state_of(member, rate)

    def freeze(self, member: int) -> None:
        """Leave a member's weights as they are from now on."""
        self.optimizer.freeze(member)

    def overwrite(self, member: int, like: int) -> None:
        """Give a member the weights of another."""
        self.stack.overwrite(member, like)

    def _held(self) -> list[Tensor]:
        return [self.stack.weights, *self.optimizer.held()]
