"""MQAR that varies load and distance separately, to tell "too much to keep" from "too long ago".

A row is n pairs, filler, and then all n queries in a random order, a filler token after each:

    k_0 v_0 ... k_{n-1} v_{n-1}   filler   k_{o(0)} _ k_{o(1)} _ ...

The filler is as long as seq_len requires.  A query stands seq_len - 2 n tokens after its key on average over
a row, for any n, and up to 2 (n - 1) tokens more or fewer.  In MQAR itself longer rows hold more pairs, and
an old pair tends to be asked early, so a mean confounds load and distance.
"""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.counter_rng import stream
from zoo.tasks.base import Batch, Data, Order
from zoo.tasks.context import Filler, fill
from zoo.tasks.mixture import Entries
from zoo.tasks.mqar import MQAR, Pairs
from zoo.tasks.sampling import distinct, outside

MIDDLE, UNUSED = 100, 101  # streams besides those of MQAR


class MQARProbe(MQAR):
    """MQAR with filler between the pairs and the queries.  Args: see MQAR; power_a and num_passes are 1."""

    def __init__(
        self,
        *,
        seed: int,
        vocab_size: int,
        filler: Filler,
        data: Data,
        order: Order,
        train: Entries,
        valid: Entries,
        test: Entries,
    ) -> None:
        super().__init__(
            power_a=1.0, num_passes=1, filler=filler,
            seed=seed, vocab_size=vocab_size, data=data, order=order, train=train, valid=valid, test=test,
        )  # fmt: skip

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n = load.num_kv_pairs
        packed = super()._rows(replace(load, seq_len=4 * n), path, examples)
        pairs, queries = packed.inputs.split(2 * n, 1)
        space = load.seq_len - 4 * n
        filler = fill(self.filler, stream(*path, MIDDLE), examples, space, pairs, self.vocab_size)
        distance = packed.groups["distance"] + space
        inputs = torch.cat([pairs, filler, queries], 1)
        return Batch(inputs, packed.positions + space, packed.answers, {"distance": distance})


def with_room(pairs: int, distance: int, rows: int) -> Pairs | None:
    """Return the segment of `pairs` pairs, `distance` tokens from key to query; None: no room for queries."""
    seq_len = distance + 2 * pairs
    return Pairs(seq_len=seq_len, num_kv_pairs=pairs, num_examples=rows) if distance >= 2 * pairs else None


def probe_task(task: MQAR, grid: list[Pairs]) -> MQARProbe:
    """Return the probe with the segments `grid` and the tokens of `task`.
    ValueError, one line: `grid` is empty, or `task` sets its own number of keys."""
    if not grid:
        raise ValueError("no distance leaves room for its pairs: a row needs 2 tokens a pair before it.")
    if task.num_keys != task.vocab_size // 2 - 1:
        raise ValueError(
            f"task.num_keys (={task.num_keys}): a probe's rows halve their vocabulary; "
            "ask the cell's own slices."
        )
    return MQARProbe(
        seed=task.seed, vocab_size=task.vocab_size, filler=task.filler, data="fixed", order="sequential",
        train=grid, valid=grid, test=grid,
    )  # fmt: skip


def blinded(
    batch: Batch, vocab_size: int, examples: Int[Tensor, " B"], seed: int
) -> Int[Tensor, "B T"] | None:
    """Return the rows of a probe with other keys in the context, none of which is asked, so that a model can
    only guess among the values.  None: the vocabulary has too few keys."""
    keys = batch.inputs[:, : 2 * batch.positions.shape[1] : 2]
    free = vocab_size // 2 - 1 - keys.shape[1]
    if free < keys.shape[1]:
        return None
    others = distinct(stream(seed, UNUSED), examples, keys.shape[1], free)
    inputs = batch.inputs.clone()
    inputs[:, : 2 * keys.shape[1] : 2] = outside(others, keys - 1) + 1
    return inputs
