"""MQAR whose keys are written again and again: the answer is the value that each key was given last.

After Wang & Sun 2025, "Unable to forget: proactive interference reveals working memory limits in LLMs beyond
context length" (arXiv 2506.08184), whose streams of updates are words; here they are MQAR's tokens.  A row of
n keys with u overwrites is

    k_{r_0} v_0 k_{r_1} v_1 ... k_{r_{m-1}} v_{m-1}   then filler with k_j at C + 2 g_j,   C = 2 m

where r has each key u + 1 times, m = n (u + 1), in a uniformly random order.  All m values differ; keys, gaps
and filler are MQAR's.  A model that keeps all values of a key without their order is right once in u + 1.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.common.counter_rng import stream
from zoo.tasks.base import Batch
from zoo.tasks.context import (
    DEPTH,
    AskedLater,
    Filler,
    Pairs,
    asked_behind,
    check_keys,
    check_room,
    fill,
    last_place,
    tenth,
)
from zoo.tasks.groups import Distance
from zoo.tasks.sampling import distinct, permutation, power_law_places

KEYS, VALUES, ORDER, GAPS, FILLER = range(5)


@dataclass(frozen=True, kw_only=True)
class Writes(Pairs):
    """A segment whose rows show each key `overwrites` + 1 times."""

    overwrites: int

    @property
    def count(self) -> int:
        """Return how many pairs a row shows."""
        return self.num_kv_pairs * (self.overwrites + 1)


class OverwrittenMQAR(AskedLater):
    """MQAR with overwrites.  Args: those of AskedLater, but not filler random, which could rewrite a key."""

    load_kind, load = Writes, "overwrites"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH})

    def __init__(self, *, filler: Filler, **settings: Any):
        one_of("task.filler", filler, ("safe", "blank"))
        super().__init__(filler=filler, **settings)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the token after the key's last place among the even places before any question."""
        before = inputs[:, : int(positions.min())]
        pairs = before[:, : before.shape[1] // 2 * 2].unflatten(1, (-1, 2))
        return pairs[..., 1].gather(1, last_place(pairs[..., 0], inputs.gather(1, positions)))

    def _rows(self, load: Writes, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, m, half = load.num_kv_pairs, load.count, self.vocab_size // 2
        keys = distinct(stream(*path, KEYS), examples, n, half - 1) + 1
        values = distinct(stream(*path, VALUES), examples, m, self.vocab_size - half) + half
        written = keys.gather(1, permutation(stream(*path, ORDER), examples, m) % n)

        size = load.seq_len - 2 * m
        gaps = power_law_places(stream(*path, GAPS), examples, n, size // 2, self.power_a)
        taken = torch.cat([keys, values], 1)
        filling = fill(self.filler, stream(*path, FILLER), examples, size, taken, self.vocab_size)
        context = torch.stack([written, values], -1).flatten(1)
        inputs, positions = asked_behind(context, filling, keys[..., None], gaps)

        latest = last_place(written, keys)
        groups = {"distance": positions - 2 * latest, "depth": tenth(latest, m)}
        return Batch(inputs, positions, values.gather(1, latest), groups)

    def _fits(self, where: str, load: Writes) -> None:
        at_least(f"{where}.overwrites", load.overwrites, 0)
        check_room(where, load, each=2 * (load.overwrites + 2))
        check_keys(where, load, self.vocab_size)
        if self.vocab_size - self.vocab_size // 2 < load.count:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has too few values for {load.count} writes ({where}); "
                f"use at least {2 * load.count}."
            )
