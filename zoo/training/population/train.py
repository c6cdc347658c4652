"""Train, validate and test several cells as one stacked model; each ends where it would have ended alone."""

from collections.abc import Sequence

from zoo.kernels.choice import Choice
from zoo.model import weights_dtype
from zoo.training.learner import Learner, fit, test
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack, copy_extra_state
from zoo.training.population.step import PopulationStep
from zoo.training.runs import Run, Runs


def train_population(members: Sequence[Run], choice: Choice, live: Sequence[int] | None = None) -> None:
    """Train cells that are built and resumed, all at the same step, inside zoo.training's `prepare`.

    live: indices of the members that train, all by default.  The others, ghosts, ended before the population
    was interrupted: they keep a row, because the arithmetic of the others depends on the number of rows.
    Each member gets its outcome when it ends.  Unstackable: raised before any step.  A member's checkpoint
    has the form that it would have alone.
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
