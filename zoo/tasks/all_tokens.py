"""A task whose training asks for every next token (`loss: all`); validation and test stay as they are."""

from typing import Literal

import torch

from zoo.tasks.around import Around
from zoo.tasks.base import IGNORED, Batch, Device, Examples, Split, Task

Loss = Literal["answers", "all"]


class AllTokens(Around):
    """Ask at every place of a training row for the token that follows; where the task asks for an
    answer, that.  After the last token only an answer of the task is.

    ValueError: a task that has no such tokens, or asks for them all by itself.
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
        targets.scatter_(1, batch.positions.where(scored, length), batch.answers)  # what is IGNORED: beyond
        places = torch.arange(length, device=targets.device).expand(rows, -1).contiguous()
        return Batch(batch.inputs, places, targets[:, :length].contiguous())


def _has_none(task: Task) -> str:
    if task.stacked:
        return "a place of this task's rows holds two tokens side by side"
    if task.decoder:
        return "a decoder reads all answers of this task off one place"
    return "this text is learned so already" if task.kind == "text" else ""
