"""Measure the loss of a model of text where recall helps: at tokens that the same window showed before."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation
from zoo.evaluation.perplexity import losses, text_of
from zoo.evaluation.trained import Trained
from zoo.tasks.base import Batch, Split


class ArHits(Evaluation):
    """The loss where recall helps: Arora et al. 2023 (Zoology), section 3, and 2024 (Based), appendix E.3.

    A token is a hit if the last `gram` tokens up to it stood in the same window before, and at most `cutoff`
    times in the training text: it can be recalled and was hardly learned.  The table has one row a slice,
    cutoff and `part`: "hit", "seen" (in the window before, but frequent in training) or "new"; columns are
    tokens, loss, and `distance`, the median to the last such place.  Tokens times loss sum to the slice's.
    As published gram is 2 (of words) and the cutoff 1,250 in ten billion tokens.
    """

    def __init__(self, *, split: Split, batch_size: int, gram: int, cutoffs: Sequence[int]) -> None:
        at_least("evaluation.batch_size", batch_size, 1)
        at_least("evaluation.gram", gram, 2)
        if gram > 7:
            raise ValueError(f"evaluation.gram (={gram}) must be at most 7: its id must fit 63 bits.")
        if not cutoffs:
            raise ValueError("evaluation.cutoffs is empty: name at least one.")
        for cutoff in cutoffs:
            at_least("a cutoff of evaluation.cutoffs", cutoff, 1)
        self.split: Split = split
        self.batch_size, self.gram, self.cutoffs = batch_size, gram, cutoffs

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return tokens, loss and distance for each slice, cutoff and part (hit, seen, new)."""
        task = text_of(trained)
        learned = np.unique(grams(task.ids("train")[None], self.gram).numpy(), return_counts=True)
        rows = []
        for segment, batches in losses(trained, self.split, self.batch_size):
            nats = torch.cat([loss.flatten() for _, loss in batches]).cpu()
            ids = torch.cat([self._ids(batch) for batch, _ in batches]).cpu()
            back, times = last_seen(ids).flatten(), frequency(ids.flatten(), *learned)
            stood = back > 0
            for cutoff in self.cutoffs:
                rare = times <= cutoff
                for part, mask in (("hit", stood & rare), ("seen", stood & ~rare), ("new", ~stood)):
                    head = {"split": self.split, "slice": segment.name, "gram": self.gram, "cutoff": cutoff}
                    rows.append(head | {"part": part} | _summary(nats[mask], back[mask]))
        return pd.DataFrame(rows)

    def _ids(self, batch: Batch) -> Int[Tensor, "B T"]:
        """Return the id of the gram that ends at each answer; -1: the window begins inside the gram."""
        window = torch.cat([batch.inputs, batch.answers[:, -1:]], dim=1)
        whole = grams(window, self.gram)
        return torch.nn.functional.pad(whole, (self.gram - 2, 0), value=-1)


def grams(ids: Int[Tensor, "B T"], size: int) -> Int[Tensor, "B T-size+1"]:
    """Return a number for every `size` consecutive tokens, below 2**63 for size <= 7."""
    wide, whole = ids.long(), ids.shape[1] - size + 1
    number = torch.zeros_like(wide[:, :whole])
    for i in range(size):
        number = (number << 9) | wide[:, i : whole + i]
    return number


def last_seen(ids: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Return the distance from each place back to the last same id of the row; 0: none, or no id (-1)."""
    order = ids.argsort(dim=1, stable=True)
    ranked = ids.gather(1, order)
    gap = order[:, 1:] - order[:, :-1]
    same = (ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)
    back = torch.nn.functional.pad(torch.where(same, gap, 0), (1, 0))
    return torch.empty_like(back).scatter_(1, order, back)


def frequency(ids: Int[Tensor, " N"], known: np.ndarray, counts: np.ndarray) -> Int[Tensor, " N"]:
    """Count how often each id stands in the training text; known: sorted."""
    array = ids.numpy()
    at = np.minimum(np.searchsorted(known, array), len(known) - 1)
    return torch.from_numpy(np.where(known[at] == array, counts[at], 0))


def _summary(nats: Tensor, back: Tensor) -> dict[str, float | int | None]:
    if not len(nats):
        return {"tokens": 0, "loss": None, "distance": None}
    return {"tokens": len(nats), "loss": float(nats.mean()), "distance": float(back.double().median())}
