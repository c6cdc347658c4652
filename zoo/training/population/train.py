"""Train, validate and test several cells as one stacked model.  Each ends where it would have ended alone."""

from collections.abc import Sequence

from zoo.config.settings import TrainerConfig
from zoo.model import weights_dtype
from zoo.training.cohort import Cohort
from zoo.training.loop import Ended, Ran, run
from zoo.training.population.lightning_module import PopulationLearner
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack, copy_extra_state
from zoo.training.train_state import Begun


def train_population(
    members: Sequence[Begun],
    trainer: TrainerConfig,
    ran: Ran,
    ended: Ended,
    live: Sequence[int] | None = None,
) -> None:
    """Train cells that have begun, inside zoo.training's `prepared`; all stand at the same step.

    live: numbers of those that are to train, all by default.  The others, ghosts, are of a population that
    was cut off after they had ended: they hold a row, for the arithmetic of the rest depends on its size.
    ran: tells which implementations of the ops have run.  ended: hears each member's outcome when it has one.
    Unstackable: before any step.  A member's checkpoint is one that it could have written alone.
    """
    share_streams(members)
    live = range(len(members)) if live is None else live
    ghosts = set(range(len(members))) - set(live)
    for ghost in ghosts:
        copy_extra_state(members[live[0]].model, members[ghost].model)
    stack = stack_of(members, trainer)
    optimizer = PopulationAdamW(stack, [begun.cell.optim for begun in members])
    optimizer.load([begun.optimizer_state if i in live else None for i, begun in enumerate(members)])
    for ghost in ghosts:
        optimizer.freeze(ghost)
        stack.park(ghost, like=live[0])
    run(PopulationLearner(Cohort(members, live), stack, optimizer, trainer, ran, ended))


def stack_of(members: Sequence[Begun], trainer: TrainerConfig) -> Stack:
    """Their models as one, on the device and in the dtype of training."""
    return Stack([begun.model.to(trainer.device, weights_dtype(trainer)) for begun in members])


def share_streams(members: Sequence[Begun]) -> None:
    """Members of equal tasks see the same batches: make them once."""
    for i, begun in enumerate(members):
        for other in members[:i]:
            if other.cell.task_settings == begun.cell.task_settings:
                begun.streams = other.streams
                break
