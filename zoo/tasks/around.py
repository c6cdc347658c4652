"""Tasks that wrap another task and change one thing: use fewer examples, or ask for every next token."""

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.tasks.base import IGNORED, Batch, Device, Examples, Segment, Split, Task

Loss = Literal["answers", "all"]


class Around(Task):
    """A task that passes on everything of `task`, except what its class overrides."""

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
    """A task with the first `max_examples` examples of each segment of `task`, unchanged."""

    def __init__(self, task: Task, max_examples: int) -> None:
        at_least("max_examples", max_examples, 1)
        super().__init__(task)
        self.max_examples = max_examples

    def segments(self, split: Split) -> list[Segment]:
        return [
            replace(segment, num_examples=min(segment.num_examples, self.max_examples))
            for segment in self.task.segments(split)
        ]


class AllTokens(Around):
    """A task that asks for the next token at every place of a training row, or for the answer of `task` where
    `task` asks for one.  At the last token, which has no next token, only an answer of `task` is scored.

    ValueError: the rows of `task` have no next token to ask for, or `task` already asks for every one.
    """

    def __init__(self, task: Task) -> None:
        if why := _has_none(task):
            raise ValueError(f"loss (=all) asks for every next token, and {why}: use loss=answers.")
        super().__init__(task)

    def sample(self, split: Split, segment: int, examples: Examples, device: Device = "cpu") -> Batch:
        batch = self.task.sample(split, segment, examples, device)
        if split != "train":
            return batch
        rows, length = batch.inputs.shape
        scored = batch.answers != IGNORED
        targets = torch.cat([batch.inputs[:, 1:], batch.inputs.new_full((rows, 2), IGNORED)], 1)
        targets.scatter_(1, batch.positions.where(scored, length), batch.answers)  # IGNORED: beyond a row
        places = torch.arange(length, device=targets.device).expand(rows, -1).contiguous()
        return Batch(batch.inputs, places, targets[:, :length].contiguous())


def _has_none(task: Task) -> str:
    if task.stacked:
        return "a place of this task's rows holds two tokens side by side"
    if task.decoder:
        return "a decoder reads all answers of this task off one place"
    return "this text is learned so already" if task.kind == "text" else ""


def inmost(task: Task) -> Task:
    """Return the innermost task: the one that is not itself a wrapper."""
    return inmost(task.task) if isinstance(task, Around) else task
