"""The training of a population as Lightning sees it: the hooks of `Learner` for P cells at once.

Every cell keeps its own journal.  One that diverges or stops early is frozen where it is, at a rate of 0, and
the others never notice.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from zoo import interrupts
from zoo.kernels.linear_cross_entropy import answer_scores
from zoo.tasks.base import Batch, joined
from zoo.training.lightning_module import answer_states
from zoo.training.loop import DOING, Loop, Pace
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack
from zoo.training.population.step import PopulationStep
from zoo.training.train_state import Diverged, Journal

Item = tuple[int, list[Batch]]  # segment; a batch for each member, or one that all share


class AllEnded(Exception):
    """No member has a step left."""


class PopulationLearner(Loop):
    """journals: of the stack's models, all at the same step.

    step: trainer.step.
    save: writes the checkpoint of the member of that number.
    diverged: called with a member's number when it has.
    live: numbers of the members that train; the others only hold their rows.
    """

    def __init__(
        self,
        stack: Stack,
        journals: Sequence[Journal],
        optimizer: PopulationAdamW,
        *,
        step: str = "auto",
        pace: Pace,
        save: Callable[[int], None],
        diverged: Callable[[int, Diverged], None],
        live: Sequence[int],
    ) -> None:
        super().__init__(pace)
        self.stack, self.journals, self.optimizer = stack, list(journals), optimizer
        self.take = PopulationStep(stack, optimizer, step)
        self._save, self.diverged = save, diverged
        self.active = list(live)  # members that have steps left; in the test: all that are sound
        self.sound = list(live)  # members that have not diverged
        self._left: list[int] = []  # members to park once the step is over
        self._stepped = False
        self._share_time()

    @property
    def form(self) -> str | None:
        """How steps are taken, see zoo.training.step; None: none was."""
        return self.take.form if self._stepped else None

    def at_work(self) -> list[Journal]:
        return [self.journals[member] for member in self.active]

    # one step ------------------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer

    def batches(self) -> Iterator[Item]:
        """The rest of the epoch that the members are in."""
        return self._side_by_side(lambda journal: journal.batches())

    def evaluated(self, split: str) -> Iterator[Item]:
        """Every batch of a split."""
        return self._side_by_side(lambda journal: iter(journal.streams[split]))

    def _side_by_side(self, batches: Callable[[Journal], Iterator[tuple[int, Batch]]]) -> Iterator[Item]:
        """The members' batches step by step: those of equal streams are made once, and an ended member gets
        another's.  One batch stands for all where all members ever shared it: how rows are computed must not
        depend on who has ended."""
        shared = len({id(journal.streams) for journal in self.journals}) == 1
        own = {id(self.journals[member].streams): self.journals[member] for member in self.active}
        for items in zip(*map(batches, own.values()), strict=True):
            segments = {segment for segment, _ in items}
            if len(segments) > 1:
                raise ValueError("the members' segments come in different orders: they cannot train as one.")
            made = dict(zip(own, (batch for _, batch in items), strict=True))
            first = items[0][1]
            every = [made.get(id(journal.streams), first) for journal in self.journals]
            yield segments.pop(), [first] if shared else every

    def training_step(self, item: Item, index: int) -> None:
        del index
        segment, batches = item
        self._stepped, step = True, self.at_work()[0].position.step
        seeds = [journal.draws_at(step) for journal in self.journals]
        batch = stacked(batches)
        losses = self.take(batch, seeds, [journal.lr_at(step) for journal in self.journals])
        self.took(step + 1, segment, batch.answers, losses)

    def rows(self, item: Item) -> int:
        return item[1][0].inputs.shape[0]

    def hear(self, step: int, segment: int, answers: list[int], loss: list[float]) -> None:
        """A member whose loss is not finite has diverged."""
        for member in self.active[:]:
            try:
                self.journals[member].hear(step, segment, answers[member], loss[member])
            except Diverged as error:
                self._has_diverged(member, error)

    def _has_diverged(self, member: int, error: Diverged) -> None:
        self._end(member)
        self.sound.remove(member)
        self._left.append(member)
        self.diverged(member, error)
        if not self.active:
            raise AllEnded

    def _end(self, member: int) -> None:
        """No more steps for this one, the others share its time."""
        self.optimizer.freeze(member)
        self.active.remove(member)
        self._share_time()

    def _share_time(self) -> None:
        for i, journal in enumerate(self.journals):
            journal.wall_seconds()
            busy = i in self.active
            journal.share = 1 / len(self.active) if busy else 0.0

    def on_train_batch_end(self, outputs: Any, batch: Item, batch_idx: int) -> None:
        while self._left:
            self.stack.park(self._left.pop(), like=self.active[0])
        super().on_train_batch_end(outputs, batch, batch_idx)

    def write(self) -> None:
        self.stack.share_extra_state()
        for member in self.active:
            self._save(member)

    # epochs and evaluations ----------------------------------------------------------------------------

    def on_train_epoch_start(self) -> None:
        self.stack.template.train()
        for member in self.active:
            self.journals[member].begin_training()

    def on_validation_epoch_start(self) -> None:
        self._begin_evaluation(self.active)

    def on_validation_epoch_end(self) -> None:
        self.stack.template.train()
        for member in self.active[:]:
            try:
                self.journals[member].end_validation()
            except Diverged as error:
                self._has_diverged(member, error)

    def on_train_epoch_end(self) -> None:
        self.save()
        for member in self.active[:]:
            self.journals[member].tell("training", now=True)
            if self.journals[member].position.early_stopped:
                self._end(member)
        if not self.active:
            raise AllEnded
        interrupts.check()

    def begin_test(self) -> None:
        """Those that stopped early come back."""
        self.active = self.sound
        self._share_time()

    def on_test_epoch_start(self) -> None:
        self._begin_evaluation(self.sound)

    def on_test_epoch_end(self) -> None:
        for member in self.sound:
            self.journals[member].end_test()

    def _begin_evaluation(self, members: Iterable[int]) -> None:
        self.stack.template.eval()
        for member in members:
            self.journals[member].begin_evaluation()

    def evaluate(self, split: str, item: Item) -> None:
        """States of all at once, the head one by one: the logits of one fit, and those of all may not."""
        segment, batches = item
        states = self.stack.map(answer_states, stacked(batches))
        for member in self.active:
            batch = batches[member % len(batches)]
            weight = self.stack.models[member].head_weight.to(states.device)
            scores = answer_scores(states[member], weight, batch.answers.flatten())
            self.journals[member].score(split, segment, batch, *scores)
            self.journals[member].tell(DOING[split])


def stacked(batches: Sequence[Batch]) -> Batch:
    """[P ...] of each field; the batch itself where there is one for all."""
    if len(batches) == 1:
        return batches[0]
    return joined(lambda *members: torch.stack(members), *batches)
