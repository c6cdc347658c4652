"""A task cut down to a few examples, for trying a command out."""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.checks import at_least
from zoo.tasks.base import Batch, Segment, Split, Task


class Limited(Task):
    """The first `max_examples` of each segment of a task; they are the same examples."""

    def __init__(self, task: Task, max_examples: int) -> None:
        at_least("max_examples", max_examples, 1)
        self.task, self.max_examples = task, max_examples
        self.seed, self.vocab_size, self.data, self.order = task.seed, task.vocab_size, task.data, task.order
        self.kind, self.groups, self.load = task.kind, task.groups, task.load
        self.decoder, self.spoken, self.stacked = task.decoder, task.spoken, task.stacked

    def segments(self, split: Split) -> list[Segment]:
        return [
            replace(segment, num_examples=min(segment.num_examples, self.max_examples))
            for segment in self.task.segments(split)
        ]

    def sample(
        self,
        split: Split,
        segment: int,
        examples: Int[Tensor, " B"] | range,
        device: torch.device | str = "cpu",
    ) -> Batch:
        return self.task.sample(split, segment, examples, device)

    def chance(self, segment: Segment) -> float:
        return self.task.chance(segment)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        return self.task.oracle(inputs, positions)
