"""Classify the answers for keys that were written several times: the last value, an older one, another's."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.scores import rows_together
from zoo.evaluation.trained import Trained
from zoo.tasks.around import inmost
from zoo.tasks.base import Batch, Split
from zoo.tasks.mqar_overwrite import OverwrittenMQAR


class Interference(Evaluation):
    """A table of one row a slice and kind of answer, with the `share` of `answers` that are of this kind.

    kind: "0" is the value that the key was given last, which is right; "1" the one before; and so on to the
    oldest; "another" a value of another key of the row; "none" no value of the row.  order_blind: the best
    shares of a memory that keeps a key's values without their order: 1 / (overwrites + 1) for each value.

    split: of the task.
    """

    def __init__(self, *, split: Split) -> None:
        self.split: Split = split

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return the shares of each slice."""
        task = inmost(trained.task)
        if not isinstance(task, OverwrittenMQAR):
            raise ValueError(
                f"interference asks for keys written again, and {type(task).__name__} has none: "
                "use task=mqar_overwrite."
            )
        return pd.DataFrame(
            row for index in range(len(task.segments(self.split))) for row in self._rows(trained, index)
        )

    def _rows(self, trained: Trained, index: int) -> Iterator[dict[str, Any]]:
        segment = trained.task.segments(self.split)[index]
        trained.model.check_length(segment.seq_len)
        pairs, writes = segment.count("num_kv_pairs"), segment.count("overwrites") + 1
        counts = torch.zeros(writes + 2, dtype=torch.long)
        for examples in torch.arange(segment.num_examples).split(rows_together(segment.seq_len)):
            batch = trained.task.sample(self.split, index, examples.to(trained.device), trained.device)
            best = trained.answered(batch)[1].view_as(batch.answers)
            counts += kinds(batch, best, pairs, writes).flatten().cpu().bincount(minlength=writes + 2)
        names = [*map(str, range(writes)), "another", "none"]
        for name, count in zip(names, counts.tolist(), strict=True):
            blind = 1 / writes if name.isdigit() else 0.0
            share = count / int(counts.sum())
            yield named(self.split, segment) | {
                "kind": name, "answers": int(counts.sum()), "share": share, "order_blind": blind,
            }  # fmt: skip


def kinds(batch: Batch, best: Int[Tensor, "B n"], pairs: int, writes: int) -> Int[Tensor, "B n"]:
    """Return for each answer how many writes of its key came after the write of the answered value; `writes`:
    the answer is another key's value; `writes` + 1: it is no value of the row."""
    keys, values = batch.inputs[:, : 2 * pairs * writes].unflatten(1, (-1, 2)).unbind(2)
    own = keys[:, None] == batch.inputs.gather(1, batch.positions)[..., None]  # [B n m]
    later = own.long().sum(-1, keepdim=True) - own.long().cumsum(-1)
    named = values[:, None] == best[..., None]
    kind = torch.where(own, later, writes).where(named, 0).sum(-1)
    return kind.where(named.any(-1), writes + 1)
