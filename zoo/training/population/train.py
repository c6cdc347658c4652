"""Train, validate and test several cells as one stacked model.  Each ends where it would have ended alone."""

from collections.abc import Sequence

from zoo.kernels.choice import Choice
from zoo.model import weights_dtype
from zoo.training.learner import Learner, fit, test
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack, copy_extra_state
from zoo.training.population.step import PopulationStep
from zoo.training.runs import Run, Runs


def train_population(members: Sequence[Run], choice: Choice, live: Sequence[int] | None = None) -> None:
    """Train cells that are built and resumed, inside zoo.training's `prepare`; all stand at the same step.

    live: numbers of those that are to train, all by default.  The others, ghosts, are of a population that
    was cut off after they had ended: they hold a row, for the arithmetic of the rest depends on its size.
    Each is given its outcome when it has one.  Unstackable: before any step.  A member's checkpoint is one
    that it could have written alone.
    """
    share_streams(members)
    trainer, live = members[0].cell.trainer, range(len(members)) if live is None else live
    ghosts = set(range(len(members))) - set(live)
    for ghost in ghosts:
        copy_extra_state(members[live[0]].model, members[ghost].model)
    dtype = weights_dtype(trainer)
    stack = Stack([run.model.to(trainer.device, dtype) for run in members])
    optimizer = PopulationAdamW(stack, [run.cell.optim for run in members])
    optimizer.load([run.optimizer_state if i in live else None for i, run in enumerate(members)])
    for ghost in ghosts:
        optimizer.freeze(ghost)
        stack.overwrite(ghost, like=live[0])
    learner = Learner(Runs(members, live), PopulationStep(stack, optimizer, trainer.step), choice)
    fit(learner)
    test(learner)
    learner.conclude()


def share_streams(members: Sequence[Run]) -> None:
    """Let members of equal tasks share the batches, which are then made once."""
    for i, run in enumerate(members):
        for other in members[:i]:
            if other.cell.task_settings == run.cell.task_settings:
                run.streams = other.streams
                break
