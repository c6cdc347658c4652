"""A task whose training asks for every next token (`loss: all`); validation and test stay as they are."""

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.tasks.around import Around
from zoo.tasks.base import IGNORED, Batch, Split


class AllTokens(Around):
    """At every place of a training row the token that follows is asked for; where the task asks for an
    answer, that.  After the last token only an answer of the task is."""

    def sample(
        self,
        split: Split,
        segment: int,
        examples: Int[Tensor, " B"] | range,
        device: torch.device | str = "cpu",
    ) -> Batch:
        batch = self.task.sample(split, segment, examples, device)
        if split != "train":
            return batch
        rows, length = batch.inputs.shape
        asked = batch.answers != IGNORED
        targets = torch.cat([batch.inputs[:, 1:], batch.inputs.new_full((rows, 2), IGNORED)], 1)
        targets.scatter_(1, batch.positions.where(asked, length), batch.answers)  # what is IGNORED: beyond
        places = torch.arange(length, device=targets.device).expand(rows, -1).contiguous()
        return Batch(batch.inputs, places, targets[:, :length].contiguous())
