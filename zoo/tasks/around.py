"""A task that is another one but for what its class changes: the first few of its examples, say."""

from dataclasses import replace

from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.tasks.base import Batch, Device, Examples, Segment, Split, Task


class Around(Task):
    """A task that hands on everything of `task`, unless its class says otherwise."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.seed, self.vocab_size, self.data, self.order = task.seed, task.vocab_size, task.data, task.order
        self.kind, self.groups, self.load = task.kind, task.groups, task.load
        self.decoder, self.spoken, self.stacked = task.decoder, task.spoken, task.stacked
        self.separator, self.stop = task.separator, task.stop
        self.made_from = task.made_from

    def segments(self, split: Split) -> list[Segment]:
        return self.task.segments(split)

    def sample(self, split: Split, segment: int, examples: Examples, device: Device = "cpu") -> Batch:
        return self.task.sample(split, segment, examples, device)

    def chance(self, segment: Segment) -> float:
        return self.task.chance(segment)

    def least_bits(self, segment: Segment) -> float | None:
        return self.task.least_bits(segment)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        return self.task.oracle(inputs, positions)


class Limited(Around):
    """The first `max_examples` of each segment of a task; they are the same examples."""

    def __init__(self, task: Task, max_examples: int) -> None:
        at_least("max_examples", max_examples, 1)
        super().__init__(task)
        self.max_examples = max_examples

    def segments(self, split: Split) -> list[Segment]:
        return [
            replace(segment, num_examples=min(segment.num_examples, self.max_examples))
            for segment in self.task.segments(split)
        ]


def inmost(task: Task) -> Task:
    """Return the task that all the others are around."""
    return inmost(task.task) if isinstance(task, Around) else task
