"""The steps of a population: cells whose models are stacked, each with a rate and an end of its own."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from zoo.config.settings import TrainerConfig
from zoo.tasks.base import Batch
from zoo.training.cohort import Cohort
from zoo.training.lightning_module import answer_states
from zoo.training.loop import Ended, Loop, Ran
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack
from zoo.training.population.step import PopulationStep
from zoo.training.train_state import Begun, State


class PopulationLearner(Loop):
    """stack: of the cohort's models."""

    def __init__(
        self,
        cohort: Cohort,
        stack: Stack,
        optimizer: PopulationAdamW,
        trainer: TrainerConfig,
        ran: Ran,
        ended: Ended,
    ) -> None:
        super().__init__(cohort, trainer, ran, ended)
        self.stack, self.optimizer = stack, optimizer
        self.stepper = PopulationStep(stack, optimizer, trainer.step)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer

    @property
    def computing(self) -> nn.Module:
        return self.stack.template

    @property
    def step_form(self) -> str:
        return self.stepper.form

    def take(self, batch: Batch, draws: list[int], rates: list[float]) -> Tensor:
        return self.stepper(batch, draws, rates)

    def answer_states(self, batch: Batch) -> Sequence[Tensor]:
        return self.stack.map(answer_states, batch)

    def halt(self, member: int) -> None:
        self.optimizer.freeze(member)

    def park(self, member: int) -> None:
        self.stack.park(member, like=self.cohort.active[0])

    def saved_states(self) -> Iterator[tuple[Begun, State, State | None]]:
        self.stack.share_extra_state()
        for member in self.cohort.active:
            begun = self.cohort.members[member]
            model = begun.model.state_dict()
            for name, value in model.items():  # views of all members' weights, which would be saved whole
                model[name] = value.clone()
            yield begun, model, self.optimizer.state_of(member, begun.lr_at(begun.position.step - 1))
