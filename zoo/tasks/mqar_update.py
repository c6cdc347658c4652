"""MQAR whose keys change their values: all pairs, then new values for some keys; the latest is asked.

HazyResearch/zoology's "forgetting MQAR" (zoology/data/forgetting_mqar.py, January 2026).  A row of n pairs
and u updates is

    k_0 v_0 ... k_{n-1} v_{n-1}   k_{r_0} w_0 ... k_{r_{u-1}} w_{u-1}   then filler with k_j at C + 2 g_j

with C = 2(n + u), r uniform without replacement from the pairs, keys, gaps and filler as in MQAR.

Deliberate difference: all n + u values of a row differ.  In zoology a new value differs from an old value,
but of another pair than the one updated; so an update may change nothing, or repeat another pair's value.
"""

from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import stream
from zoo.tasks.base import Batch
from zoo.tasks.context import DEPTH, AskedLater, Pairs, asked_behind, check_room, fill, last_place, tenth
from zoo.tasks.groups import Distance, Words
from zoo.tasks.sampling import distinct, permutation, power_law_places

KEYS, VALUES, UPDATED, GAPS, FILLER = range(5)


class UpdatedMQAR(AskedLater):
    """MQAR with updates.  Args, besides those of AskedLater:

    num_updates: u, how many of a row's keys get a new value; 4 there.
    """

    load_kind, load = Pairs, "num_kv_pairs"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH, "binding": Words(("kept", "updated"))})

    def __init__(self, *, num_updates: int, **settings: Any):
        at_least("task.num_updates", num_updates, 0)
        self.num_updates = num_updates
        super().__init__(**settings)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the token after the key's last place in the context; there is a question for each pair."""
        context = inputs[:, : 2 * (positions.shape[1] + self.num_updates)]
        keys, values = context.unflatten(1, (-1, 2)).unbind(2)
        return values.gather(1, last_place(keys, inputs.gather(1, positions)))

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, u, half = load.num_kv_pairs, self.num_updates, self.vocab_size // 2
        keys = distinct(stream(*path, KEYS), examples, n, half - 1) + 1
        values = distinct(stream(*path, VALUES), examples, n + u, self.vocab_size - half) + half
        updated = permutation(stream(*path, UPDATED), examples, n)[:, :u]
        shown = torch.cat([keys, keys.gather(1, updated)], 1)
        context = torch.stack([shown, values], -1).flatten(1)

        size = load.seq_len - 2 * (n + u)
        gaps = power_law_places(stream(*path, GAPS), examples, n, size // 2, self.power_a)
        taken = torch.cat([keys, values], 1)
        filling = fill(self.filler, stream(*path, FILLER), examples, size, taken, self.vocab_size)
        inputs, positions = asked_behind(context, filling, keys[..., None], gaps)

        pair = torch.arange(n, device=examples.device).repeat(len(examples), 1)
        latest = pair.scatter(1, updated, torch.arange(n, n + u, device=examples.device).expand_as(updated))
        groups = {
            "distance": positions - 2 * latest,
            "depth": tenth(latest, n + u),
            "binding": (latest >= n).long(),
        }
        return Batch(inputs, positions, values.gather(1, latest), groups)

    def _fits(self, where: str, load: Pairs) -> None:
        n, u, keys = load.num_kv_pairs, self.num_updates, self.vocab_size // 2 - 1
        if u > n:
            raise ValueError(
                f"task.num_updates (={u}) must be at most {where}.num_kv_pairs (={n}): a key is updated once."
            )
        check_room(where, load, each=4, more=2 * u)
        if keys < n or self.vocab_size - self.vocab_size // 2 < n + u:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has too few tokens for {n} keys and {n + u} values "
                f"({where}); use at least {2 * max(n + 1, n + u)}."
            )
