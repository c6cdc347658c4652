"""Train, validate and test several cells as one stacked model.  Each ends where it would have ended alone."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from zoo.config.settings import TrainerConfig
from zoo.results.metrics_csv import write_csv
from zoo.results.outcome import Outcome
from zoo.training.loop import Batches, fit, test
from zoo.training.population.lightning_module import AllEnded, PopulationLearner
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack, copy_extra_state
from zoo.training.train import METRICS, Begun, lightning, outcome, save, weights_dtype
from zoo.training.train_state import Diverged

Ended = Callable[[int, Outcome], None]


def train_population(
    members: Sequence[Begun],
    trainer: TrainerConfig,
    ran: Callable[[], dict[str, str]],
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
    optimizer = PopulationAdamW(stack, [begun.journal.config for begun in members])
    optimizer.load([begun.optimizer_state if i in live else None for i, begun in enumerate(members)])
    for ghost in ghosts:
        optimizer.freeze(ghost)
        stack.park(ghost, like=live[0])

    def end(member: int, diverged: Diverged | None, ops: dict[str, str]) -> None:
        begun = members[member]
        write_csv(begun.folder / METRICS, begun.journal.position.rows)
        ended(member, outcome(begun, diverged, ops, learner.form))

    def keep(member: int) -> None:
        journal = members[member].journal
        state = stack.models[member].state_dict()
        for name, value in state.items():  # views of all members' weights, which torch.save would save whole
            state[name] = value.clone()
        rate = journal.lr_at(journal.position.step - 1)
        save(members[member], state, optimizer.state_of(member, rate), ran(), learner.form)

    learner = PopulationLearner(
        stack,
        [begun.journal for begun in members],
        optimizer,
        step=trainer.step,
        pace=trainer,
        save=keep,
        diverged=lambda member, diverged: end(member, diverged, ran()),
        live=live,
    )
    _run(learner, trainer, members[live[0]])
    ops = ran()  # before the first outcome measures decoding, which is not training
    for member in learner.sound:
        end(member, None, ops)


def _run(learner: PopulationLearner, trainer: TrainerConfig, first: Begun) -> None:
    runner = lightning(trainer, first.journal, first.folder)
    with suppress(AllEnded):
        fit(learner, runner, Batches(lambda: learner.evaluated("valid")))
    if learner.sound:
        learner.begin_test()
        runner = lightning(trainer, first.journal, first.folder)  # one that AllEnded ended is not used again
        test(learner, runner, Batches(lambda: learner.evaluated("test")))


def stack_of(members: Sequence[Begun], trainer: TrainerConfig) -> Stack:
    return Stack([begun.model.to(trainer.device, weights_dtype(trainer)) for begun in members])


def share_streams(members: Sequence[Begun]) -> None:
    """Members of equal tasks see the same batches: make them once."""
    for i, begun in enumerate(members):
        for other in members[:i]:
            if other.cell.config["task"] == begun.cell.config["task"]:
                begun.journal.streams = other.journal.streams
                break
