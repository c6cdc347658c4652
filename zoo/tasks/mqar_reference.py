"""MQAR whose training and test rows equal the reference's, filler included, number for number.

See zoo.tasks.mqar for the task and zoo.tasks.mqar_numpy_compat for how the reference draws.  A whole segment
is made when its first row is requested, in about 20 seconds for 100,000 rows, and cached.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from zoo.common.checks import one_of
from zoo.tasks.base import Batch, Device, Examples, Split, indices, joined
from zoo.tasks.mqar import MQAR, Pairs
from zoo.tasks.mqar_numpy_compat import reference_filler, reference_rows, segment_seeds

SEEDS = 2**32
SPLITS = ("train", "test")  # the reference's splits, in its order


class ReferenceMQAR(MQAR):
    """MQAR with the reference's rows.  Settings: those of MQAR, without `filler: safe` and with one pass.

    Rows that the reference lacks (all of validation, and those beyond a segment's num_examples) are MQAR's.
    """

    def __init__(self, *, num_passes: int = 1, **settings: Any) -> None:
        if num_passes != 1:
            raise ValueError(f"task.num_passes (={num_passes}) must be 1: the reference has one pass.")
        super().__init__(num_passes=1, **settings)
        one_of("task.filler", self.filler, ("random", "blank"))
        if not 0 <= self.seed < SEEDS:
            raise ValueError(f"task.seed (={self.seed}) must be at least 0 and below {SEEDS}: numpy's rule.")

    def sample(self, split: Split, segment: int, examples: Examples, device: Device = "cpu") -> Batch:
        examples = indices(examples)
        ours = super().sample(split, segment, examples, device)
        if split not in SPLITS:
            return ours
        loads = tuple(tuple(self._loads[name]) for name in SPLITS)
        place = SPLITS.index(split), segment
        theirs = _rows(self.seed, self.vocab_size, self.power_a, self.filler, loads, *place)
        there = (examples < len(theirs.inputs)).nonzero()[:, 0].cpu()
        at, of = there.to(device), examples.cpu()[there]
        return joined(
            lambda mine, their: mine.index_put((at,), their[of].to(device, torch.int64)), ours, theirs
        )


@lru_cache(maxsize=24)
def _rows(
    seed: int,
    vocab_size: int,
    power_a: float,
    filler: str,
    loads: Sequence[Sequence[Pairs]],
    split: int,
    segment: int,
) -> Batch:
    """Return a whole segment of the reference in int32."""
    load, seeds = loads[split][segment], segment_seeds(len(loads[0]), len(loads[1]), seed)
    batch = reference_rows(
        seed=seeds[split][segment],
        vocab_size=vocab_size,
        seq_len=load.seq_len,
        num_kv_pairs=load.num_kv_pairs,
        num_examples=load.num_examples,
        power_a=power_a,
    )
    if filler == "random":
        shapes = [(each.num_examples, each.seq_len) for part in loads for each in part]
        drawn = reference_filler(shapes[: split * len(loads[0]) + segment + 1], vocab_size, seed)
        batch = batch._replace(inputs=torch.where(batch.inputs == 0, drawn, batch.inputs))
    return joined(Tensor.int, batch)
