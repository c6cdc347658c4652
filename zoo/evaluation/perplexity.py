"""Measure how well a model of text predicts: perplexity and bits a byte."""

import math

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.trained import Trained
from zoo.tasks.around import inmost
from zoo.tasks.base import Batch, Segment, Split
from zoo.tasks.batches import BatchStream
from zoo.tasks.corpora.base import BOS
from zoo.tasks.text import Text


class Perplexity(Evaluation):
    """A table of one row a slice: tokens, loss (nats a token), perplexity, bits_per_byte.

    bits_per_byte: all bits of the slice, including those of BOS and EOS, over its bytes.
    """

    def __init__(self, *, split: Split, batch_size: int) -> None:
        at_least("evaluation.batch_size", batch_size, 1)
        self.split: Split = split
        self.batch_size = batch_size

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return tokens, loss a token, perplexity and bits a byte of each slice."""
        rows = []
        for segment, parts in losses(trained, self.split, self.batch_size):
            nats = torch.cat([loss.flatten() for _, loss in parts])
            bytes_ = sum(int((batch.answers < BOS).sum()) for batch, _ in parts)
            loss = float(nats.mean())
            bits = float(nats.sum()) / math.log(2)
            rows.append(
                named(self.split, segment)
                | {"tokens": len(nats), "loss": loss}
                | {"perplexity": math.exp(loss), "bits_per_byte": bits / bytes_}
            )
        return pd.DataFrame(rows)


def losses(
    trained: Trained, split: Split, batch_size: int
) -> list[tuple[Segment, list[tuple[Batch, Float[Tensor, "B T"]]]]]:
    """Return each segment of a split with its batches and the loss of every token in nats."""
    text_of(trained)
    stream = BatchStream(trained.task, split, batch_size, trained.device)
    parts: list[list[tuple[Batch, Tensor]]] = [[] for _ in stream.segments]
    for segment, batch in stream:
        nats, _ = trained.answered(batch)
        parts[segment].append((batch, nats.view_as(batch.answers).double()))
    return list(zip(stream.segments, parts, strict=True))


def text_of(trained: Trained) -> Text:
    """Return the innermost task if it is a Text.  ValueError, one line: it is not."""
    task = inmost(trained.task)
    if not isinstance(task, Text):
        raise ValueError("this is asked of models of text: train on task=text.")
    return task
