"""The cells that train at the same steps: one alone, or several as one model.

Who still trains, what their batches are, what their losses and scores come to, and whose the time is.
Knows neither how a step is taken nor Lightning.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from zoo.evaluation.scores import TRAIN_EVERY, Tally
from zoo.results.metrics_csv import score_rows, train_rows
from zoo.tasks.base import IGNORED, Batch, joined
from zoo.training.train_state import Begun

LOOK_EVERY = {"cpu": 1}  # steps between two looks at the losses; each look waits for a GPU
LOOK_EVERY_ELSEWHERE = 50
REPORT_EVERY = 0.5  # seconds
Item = tuple[int, list[Batch]]  # segment; a batch for each member, or one that all share


class Cohort:
    """members: all at the same step.  live: numbers of those that train, all by default; the others, ghosts,
    only hold their rows.

    active: numbers of the members that have steps left; in the test, of all that are sound.
    sound: of those that have not diverged.  left: of those that have ended since anybody asked.
    """

    def __init__(self, members: Sequence[Begun], live: Sequence[int] | None = None) -> None:
        self.members = list(members)
        self.active = list(range(len(members)) if live is None else live)
        self.sound, self.left = list(self.active), list[int]()
        self._unread: list[tuple[int, int, Tensor, Tensor]] = []  # as `took` has it
        self._told = time.perf_counter()
        self._counted = min(begun.began for begun in self.at_work())  # time up to here has been given out

    def at_work(self) -> list[Begun]:
        return [self.members[member] for member in self.active]

    @property
    def first(self) -> Begun:
        """One that is at work: all are at its step."""
        return self.members[self.active[0]]

    # batches -----------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Item]:
        """The rest of the epoch that the members are in."""
        return self._side_by_side(Begun.batches)

    def evaluated(self, split: str) -> Iterator[Item]:
        """Every batch of a split."""
        return self._side_by_side(lambda begun: iter(begun.streams[split]))

    def _side_by_side(self, batches: Callable[[Begun], Iterator[tuple[int, Batch]]]) -> Iterator[Item]:
        """The members' batches step by step: those of equal streams are made once, and an ended member gets
        another's.  One batch stands for all where all members ever shared it: how rows are computed must not
        depend on who has ended."""
        streams = [id(begun.streams) for begun in self.members]
        own = {id(begun.streams): begun for begun in self.at_work()}
        for items in zip(*map(batches, own.values()), strict=True):
            segment, first = items[0]
            if any(other != segment for other, _ in items):
                raise ValueError("the members' segments come in different orders: they cannot train as one.")
            made = dict(zip(own, (batch for _, batch in items), strict=True))
            yield segment, [made.get(of, first) for of in streams] if len(set(streams)) > 1 else [first]

    # losses ------------------------------------------------------------------------------------------------

    def took(self, step: int, segment: int, answers: Tensor, losses: Tensor) -> None:
        """One more step, counted from 1.  answers: [B A] or [P B A]; losses: [P], or of one cell.

        Both are left on the device for a while.
        """
        self._unread.append((step, segment, answers, losses))
        if len(self._unread) >= LOOK_EVERY.get(losses.device.type, LOOK_EVERY_ELSEWHERE):
            self.read_losses()

    def read_losses(self) -> None:
        """Fetch what the device has computed; whose loss is not finite has ended."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        counts = [(answers != IGNORED).sum((-2, -1)).expand_as(losses) for *_, answers, losses in unread]
        losses = [losses for *_, losses in unread]
        of_each = (torch.stack(values).view(len(unread), -1).tolist() for values in (counts, losses))
        for (step, segment, *_), answers, loss in zip(unread, *of_each, strict=True):
            for member in self.active:
                if self.members[member].diverged is None:
                    _hear(self.members[member], step, segment, answers[member], loss[member])
        self._end(lambda begun: begun.diverged is not None)

    def stepped(self, rows: int) -> None:
        """A step over so many rows of each member is over."""
        for begun in self.at_work():
            begun.stepped(rows)
        if self.first.ends_epoch or self.first.position.step % TRAIN_EVERY == 0:
            self.read_losses()
            for begun in self.at_work():
                _flush(begun)

    # evaluations -------------------------------------------------------------------------------------------

    def begin_evaluation(self) -> None:
        for begun in self.at_work():
            begun.tallies = {}

    def count(
        self, split: str, segment: int, member: int, batch: Batch, losses: Tensor, best: Tensor
    ) -> None:
        """The cross-entropy of each answer of a batch [B * A], and the most likely token in its place."""
        begun = self.members[member]
        name = begun.streams[split].segments[segment].name
        begun.tallies.setdefault(name, Tally(begun.task.groups)).add(batch, losses, best)

    def end_validation(self) -> None:
        """Whose loss is not finite has ended."""
        for begun in self.at_work():
            scores = begun.scores()
            begun.log(score_rows(begun.position.step, "valid", scores))
            if not begun.position.validated(scores, begun.cell.optim.early_stop):
                begun.diverged = begun.position.step
        self._end(lambda begun: begun.diverged is not None)

    def stop_early(self) -> None:
        for begun in self.at_work():
            begun.position.early_stopped = True

    def end_epoch(self) -> None:
        """Who stops early has ended."""
        self._end(lambda begun: begun.position.early_stopped)

    def end_test(self) -> None:
        for begun in self.at_work():
            begun.log(score_rows(begun.position.step, "test", begun.scores()))

    # who goes on -------------------------------------------------------------------------------------------

    def _end(self, over: Callable[[Begun], bool]) -> None:
        """No more steps for these; the others share their time."""
        ended = [member for member in self.active if over(self.members[member])]
        if ended:
            self.count_time()
            self.active = [member for member in self.active if member not in ended]
            self.sound = [member for member in self.sound if self.members[member].diverged is None]
            self.left += ended

    def begin_test(self) -> None:
        """Those that stopped early come back."""
        self.count_time()
        self.active = self.sound

    def count_time(self, training: bool = False) -> None:
        """Give the time since it was counted last to those at work, in equal shares."""
        now = time.perf_counter()
        for begun in self.at_work():
            share = (now - self._counted) / len(self.active)
            begun.position.wall_seconds += share
            begun.position.train_seconds += share if training else 0.0
        self._counted = now

    def tell(self, message: str, now: bool = False) -> None:
        """Say where the cells stand, at most every REPORT_EVERY seconds."""
        if now or time.perf_counter() - self._told >= REPORT_EVERY:
            self._told = time.perf_counter()
            for begun in self.at_work():
                begun.tell(message)


def _hear(begun: Begun, step: int, segment: int, answers: int, loss: float) -> None:
    """The loss of a step, the mean over its answers."""
    begun.loss = loss
    begun.position.pending.append((begun.streams["train"].segments[segment].name, answers, loss))
    if not math.isfinite(loss):
        begun.diverged = begun.position.step = step
        _flush(begun)


def _flush(begun: Begun) -> None:
    """The losses heard become rows."""
    begun.log(train_rows(begun.position.step, begun.position.pending))
    begun.position.pending = []


def stacked(batches: Sequence[Batch]) -> Batch:
    """[P ...] of each field; the batch itself where there is one for all."""
    if len(batches) == 1:
        return batches[0]
    return joined(lambda *members: torch.stack(members), *batches)
