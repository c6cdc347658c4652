"""MQAR whose keys have two tokens, neither of which determines the value alone.

HazyResearch/zoology's compositional MQAR (zoology/data/compositional_mqar.py, January 2026).  n = m * m pairs
bind every combination of m first and m second tokens, in random order, each to a value of its own:

    a_0 b_0 v_0 ... a_{n-1} b_{n-1} v_{n-1}      then filler with a_j b_j at C + 3 g_j,   C = 3 n

First tokens are uniform without replacement from 1..V/3-1, second ones from V/3..2V/3-1, values from
2V/3..V-1 (thirds rounded down), gaps as in MQAR from 0..(L - C)/3-1.  The prediction is read off at the
second token.  A model that uses only one of the two tokens is right at most once in m questions.
"""

import math
from types import MappingProxyType

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.counter_rng import stream
from zoo.tasks.base import Batch
from zoo.tasks.context import DEPTH, AskedLater, Pairs, asked_behind, check_room, fill, tenth
from zoo.tasks.groups import Distance
from zoo.tasks.sampling import distinct, permutation, power_law_places

FIRSTS, SECONDS, ORDER, VALUES, GAPS, FILLER = range(6)


class CompositionalMQAR(AskedLater):
    """MQAR with composed keys; a segment's num_kv_pairs is a square.  See AskedLater for the settings."""

    load_kind, load = Pairs, "num_kv_pairs"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH})

    @property
    def num_values(self) -> int:
        return self.vocab_size - 2 * (self.vocab_size // 3)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the value after both tokens; there are as many combinations as questions."""
        first, second, values = inputs[:, : 3 * positions.shape[1]].unflatten(1, (-1, 3)).unbind(2)
        queries = inputs.gather(1, positions - 1)[..., None], inputs.gather(1, positions)[..., None]
        both = (first[:, None] == queries[0]) & (second[:, None] == queries[1])
        return values.gather(1, both.int().argmax(-1))

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, side, third = load.num_kv_pairs, math.isqrt(load.num_kv_pairs), self.vocab_size // 3
        firsts = distinct(stream(*path, FIRSTS), examples, side, third - 1) + 1
        seconds = distinct(stream(*path, SECONDS), examples, side, third) + third
        values = distinct(stream(*path, VALUES), examples, n, self.vocab_size - 2 * third) + 2 * third
        cell = permutation(stream(*path, ORDER), examples, n)
        keys = torch.stack([firsts.gather(1, cell // side), seconds.gather(1, cell % side)], -1)

        context = torch.cat([keys, values[..., None]], -1).flatten(1)
        size = load.seq_len - 3 * n
        gaps = power_law_places(stream(*path, GAPS), examples, n, size // 3, self.power_a)
        taken = torch.cat([firsts, seconds, values], 1)
        filling = fill(self.filler, stream(*path, FILLER), examples, size, taken, self.vocab_size)
        inputs, positions = asked_behind(context, filling, keys, gaps)

        pair = torch.arange(n, device=examples.device)
        groups = MappingProxyType(
            {"distance": positions - (3 * pair + 1), "depth": tenth(pair, n).expand_as(positions)}
        )
        return Batch(inputs, positions, values, groups)

    def _fits(self, where: str, load: Pairs) -> None:
        n, side, third = load.num_kv_pairs, math.isqrt(load.num_kv_pairs), self.vocab_size // 3
        if side * side != n:
            raise ValueError(
                f"{where}.num_kv_pairs (={n}) must be a square; use {side * side} or {(side + 1) ** 2}."
            )
        check_room(where, load, each=6)
        if third - 1 < side or self.vocab_size - 2 * third < n:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has too few tokens for twice {side} parts of keys and "
                f"{n} values ({where}); use at least {3 * max(side + 1, n)}."
            )
