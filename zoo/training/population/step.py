"""Take a training step of a whole population: forward, backward, clipping and update of every member.

A recording (`zoo.training.cuda_graphs`) can hold the step: shapes never change, nothing is read back, and
what differs between steps (learning rates, ended members) lies in tensors that are written before the step.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.model import SequenceModel
from zoo.tasks.base import Batch
from zoo.training.cuda_graphs import Recorded, Restorable
from zoo.training.loss import answer_states, answers_loss
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack, copy_extra_state
from zoo.training.train_state import State


class PopulationStep:
    """Takes the steps of all members of a stack; the other kind of `zoo.training.learner.Step` is one cell's.

    form, as an argument: trainer.step, as in `zoo.training.step.Stepper`; populations are never compiled.
    ValueError, at a step: the step cannot be taken in that form.
    """

    def __init__(self, stack: Stack, optimizer: PopulationAdamW, form: str = "auto") -> None:
        self.stack, self.optimizer, self.asked = stack, optimizer, form
        changing = Restorable(stack.template, lambda: [stack.weights, *optimizer.held()])
        how = "eager" if form == "compile" else form
        self._take = Recorded(self._step, changing, stack.weights.device.type, how)

    @property
    def form(self) -> str:
        """Name the form for the record: "graph" or "eager", with the reason in brackets if there is one."""
        why = "populations are not compiled" if self.asked == "compile" else self._take.why
        return "graph" if self._take.recorded else f"eager ({why})" if why else "eager"

    def __call__(self, batch: Batch, seeds: Sequence[int], rates: Sequence[float]) -> Tensor:
        """Take one step; return the members' losses [P], on the device.

        seeds, rates: each member's, for this step.
        batch: fields stacked [P B ...], or [B ...] if all members share it.
        """
        self.stack.draws.begin(seeds)
        self.optimizer.set_rates(rates)
        return self._take(*batch.tensors)

    def _step(self, *batch: Tensor) -> Tensor:
        """Take the step that a recording holds; only weights and the optimizer's tensors change."""
        for leaf in self.stack.leaves:
            leaf.grad = None
        losses = self.stack.map(answers_loss, Batch.of(*batch))
        with torch.autocast(losses.device.type, enabled=False):  # the backward keeps the forward's precision
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
        copy_extra_state(self.stack.template, self.stack.models[member])  # only the template counts
        model = self.stack.models[member].state_dict()
        for name, value in model.items():  # views, with which all members' weights would be saved
            model[name] = value.clone()
        return model, self.optimizer.state_of(member, rate)

    def freeze(self, member: int) -> None:
        """Leave a member's weights as they are from now on."""
        self.optimizer.freeze(member)

    def overwrite(self, member: int, like: int) -> None:
        """Give a member the weights of another."""
        self.stack.overwrite(member, like)
