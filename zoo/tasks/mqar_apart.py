"""MQAR whose values stand some tokens after their keys, with filler between.

A row of n pairs, each value a tokens after its key, is

    k_0 x .. x v_0   ...   k_{n-1} x .. x v_{n-1}   then filler with k_j at C + 2 g_j,   C = n (a + 1)

with a - 1 tokens x of filler in a pair; keys, values, gaps and filler are as in MQAR, where a = 1.  A model
trained on MQAR has to learn only to look farther back: this is a control for the adaptation of convolutions.
"""

from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import stream
from zoo.tasks.base import Batch
from zoo.tasks.context import AskedLater, Pairs, asked_behind, check_keys, check_room, fill
from zoo.tasks.groups import Distance
from zoo.tasks.sampling import distinct, power_law_places

KEYS, VALUES, GAPS, FILLER = range(4)


class ApartMQAR(AskedLater):
    """MQAR with filler inside its pairs.  Args, besides those of AskedLater:

    apart: a, how many tokens after its key a value stands.
    """

    load_kind, load = Pairs, "num_kv_pairs"
    groups = MappingProxyType({"distance": Distance()})

    def __init__(self, *, apart: int, **settings: Any):
        at_least("task.apart", apart, 1)
        self.apart = apart
        super().__init__(**settings)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the last token of the pair that begins with the key; there is a question for each pair."""
        width = self.apart + 1
        pairs = inputs[:, : width * positions.shape[1]].unflatten(1, (-1, width))
        queries = inputs.gather(1, positions)
        return pairs[..., -1].gather(1, (queries[:, :, None] == pairs[:, None, :, 0]).int().argmax(2))

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, half, width = load.num_kv_pairs, self.vocab_size // 2, self.apart + 1
        keys = distinct(stream(*path, KEYS), examples, n, half - 1) + 1
        values = distinct(stream(*path, VALUES), examples, n, self.vocab_size - half) + half
        size, taken = load.seq_len - 2 * n, torch.cat([keys, values], 1)
        filling = fill(self.filler, stream(*path, FILLER), examples, size, taken, self.vocab_size)
        between, behind = filling.split([n * (width - 2), load.seq_len - width * n], dim=1)

        pairs = torch.cat([keys[..., None], between.unflatten(1, (n, width - 2)), values[..., None]], -1)
        gaps = power_law_places(stream(*path, GAPS), examples, n, behind.shape[1] // 2, self.power_a)
        inputs, positions = asked_behind(pairs.flatten(1), behind, keys[..., None], gaps)
        began = width * torch.arange(n, device=examples.device)
        return Batch(inputs, positions, values, {"distance": positions - began})

    def _fits(self, where: str, load: Pairs) -> None:
        check_room(where, load, each=self.apart + 3)
        check_keys(where, load, self.vocab_size)
