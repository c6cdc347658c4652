"""Iterate over the batches of a split in the task's order, for training and evaluation."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

import torch

from zoo.common.checks import at_least
from zoo.common.counter_rng import bits, stream
from zoo.tasks.base import Batch, Segment, Split, Task

SHUFFLE = 0x5EED  # names the stream of the permutations; no task's path is (seed, this)


def longest(task: Task, *splits: Split) -> int:
    """Return the tokens of the longest rows of these splits."""
    return max(segment.seq_len for split in splits for segment in task.segments(split))


def shortest(task: Task, split: Split) -> int:
    """Return the tokens of the shortest rows of a split."""
    return min(segment.seq_len for segment in task.segments(split))


class BatchStream:
    """An iterable of (segment index, Batch); every batch holds examples of one segment.

    Training (split "train"): an epoch has ceil(num_examples / batch_size) batches of each segment.  With
    task.data "fixed" they hold the segment's examples, and the last batch is short; with "stream" every batch
    is full and the example indices go on from epoch to epoch, so nothing is seen twice.  `task.order` orders
    the batches.  Iterating goes on from (epoch, batch): `set_epoch` moves to the start of another epoch, the
    next epoch follows an exhausted one, and `state_dict` / `load_state_dict`, which Lightning saves with its
    own checkpoint, resume in the middle of an epoch.

    Valid and test: every example once, segment by segment, from the start at each iteration.

    Batches are generated `block` examples of a segment at a time and handed out as views; the block size
    never changes a byte.
    """

    def __init__(
        self, task: Task, split: Split, batch_size: int, device: torch.device | str = "cpu", block: int = 4096
    ):
        at_least("batch_size", batch_size, 1)
        self.task, self.batch_size, self.device = task, batch_size, device
        self.split: Split = split
        self.segments: list[Segment] = task.segments(split)
        self.epoch = self.batch = 0
        self._counts = [-(-segment.num_examples // batch_size) for segment in self.segments]
        self._batches_at_once = max(1, block // batch_size)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return sum(self._counts)

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of `epoch`; keep the present place if it lies in `epoch`."""
        if epoch != self.epoch:
            self.epoch, self.batch = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Return the place where iterating goes on."""
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from the place of a `state_dict`."""
        self.epoch, self.batch = state["epoch"], state["batch"]

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        if self.split != "train":
            self.batch = 0
        elif self.batch == len(self):
            self.set_epoch(self.epoch + 1)
        plan = self.plan(self.epoch)[self.batch :]
        for segment, batch in self._generate(plan):
            self.batch += 1
            yield segment, batch

    def plan(self, epoch: int) -> list[tuple[int, range]]:
        """Return the epoch's batches, each as its segment index and its example indices."""
        return [(segment, self._examples(epoch, segment, k)) for segment, k in self._order(epoch)]

    def _examples(self, epoch: int, segment: int, k: int) -> range:
        """Return the examples of batch k of a segment."""
        if self.split == "train" and self.task.data == "stream":
            start = (epoch * self._counts[segment] + k) * self.batch_size
            return range(start, start + self.batch_size)
        every = range(self.segments[segment].num_examples)
        return every[k * self.batch_size : (k + 1) * self.batch_size]

    def _order(self, epoch: int) -> list[tuple[int, int]]:
        """Return (segment, batch of that segment) for each batch, in the order of the epoch."""
        batches = [(segment, k) for segment, count in enumerate(self._counts) for k in range(count)]
        if self.split != "train" or self.task.order == "sequential":
            return batches
        if self.task.order == "interleaved":  # batch k of c falls due at (k + 1/2) / c of the epoch
            return sorted(batches, key=lambda b: ((b[1] + 0.5) / self._counts[b[0]], b[0]))
        draws = bits(stream(self.task.seed, SHUFFLE), torch.tensor([epoch]), len(batches))[0]
        return [batches[i] for i in draws.argsort(stable=True).tolist()]

    def _generate(self, plan: list[tuple[int, range]]) -> Iterator[tuple[int, Batch]]:
        """Make the next few batches of a segment together, whatever stands between them in the plan."""
        ready: list[deque[Batch]] = [deque() for _ in self.segments]
        ahead = [iter([examples for s, examples in plan if s == i]) for i in range(len(self.segments))]
        for segment, _ in plan:
            if not ready[segment]:
                ready[segment].extend(
                    self._block(segment, list(islice(ahead[segment], self._batches_at_once)))
                )
            yield segment, ready[segment].popleft()

    def _block(self, segment: int, batches: list[range]) -> list[Batch]:
        examples = torch.cat([torch.arange(batch.start, batch.stop) for batch in batches])
        block = self.task.sample(self.split, segment, examples, self.device)
        sizes = [len(batch) for batch in batches]
        fields = zip(*(field.split(sizes) for field in block.tensors), strict=True)
        groups = {name: values.split(sizes) for name, values in block.groups.items()}
        return [
            Batch.of(*tensors)._replace(groups={name: parts[i] for name, parts in groups.items()})
            for i, tensors in enumerate(fields)
        ]
