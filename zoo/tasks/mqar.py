"""Multi-query associative recall (MQAR): a row shows pairs of key and value, then asks each key's value.

Arora et al. 2023, "Zoology: Measuring and improving recall in efficient language models", section 4, as the
reference implementation generates it.  A row of n pairs and P passes is

    k_0 v_0 k_1 v_1 ... k_{n-1} v_{n-1}   (P times, the same)   then filler with k_j at C + 2 g_j,   C = 2 n P

with keys uniform without replacement from 1..V/2-1, values from V/2..V-1, and the gaps g_j drawn one after
the other without replacement from 0..S-1, S = (L - C)/2, slot i with weight i**(power_a - 1), i = 1..S.  The
prediction is read off at the query itself; the token after a query is filler, never the answer.

Deliberate differences: `filler: safe` (zoo.tasks.context.fill); the vocabulary need not exceed the sequence;
every random number comes from a counter, so a row depends on (seed, split, segment, index) alone.
"""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import stream
from zoo.tasks.base import Batch, Data, Order
from zoo.tasks.context import AskedLater, Filler, Pairs, asked_behind, check_keys, fill
from zoo.tasks.groups import Distance
from zoo.tasks.sampling import distinct, power_law_places

KEYS, VALUES, GAPS, FILLER = range(4)


class MQAR(AskedLater):
    """The task MQAR.  Args, besides those of AskedLater:

    vocab_size: V; token 0 is neither key nor value.
    num_passes: how often the pairs are shown (Arora et al. 2024, "Just read twice").
    """

    load_kind, load = Pairs, "num_kv_pairs"

    def __init__(self, *, num_passes: int, **settings: Any):
        at_least("task.num_passes", num_passes, 1)
        self.num_passes = num_passes
        self.groups = {"distance": Distance()}
        super().__init__(**settings)

    @property
    def num_keys(self) -> int:
        """Return how many tokens can be a key: half of the vocabulary, less the 0."""
        return self.vocab_size // 2 - 1

    @classmethod
    def one_load(
        cls,
        *,
        seed: int,
        vocab_size: int,
        power_a: float,
        num_passes: int,
        filler: Filler,
        data: Data,
        order: Order,
        seq_len: int,
        num_kv_pairs: int,
        train_examples: int,
        valid_examples: int,
        test_examples: int,
    ) -> "MQAR":
        """Return the task whose splits have one segment each, all of the same shape."""
        train, valid, test = (
            [Pairs(seq_len=seq_len, num_kv_pairs=num_kv_pairs, num_examples=count)]
            for count in (train_examples, valid_examples, test_examples)
        )
        return cls(
            seed=seed,
            vocab_size=vocab_size,
            power_a=power_a,
            num_passes=num_passes,
            filler=filler,
            data=data,
            order=order,
            train=train,
            valid=valid,
            test=test,
        )

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the token after the key among the pairs; there are as many pairs as questions."""
        keys, values = inputs[:, : 2 * positions.shape[1]].unflatten(1, (-1, 2)).unbind(2)
        queries = inputs.gather(1, positions)
        return values.gather(1, (queries[:, :, None] == keys[:, None]).int().argmax(2))

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n = load.num_kv_pairs
        context = 2 * n * self.num_passes
        keys = distinct(stream(*path, KEYS), examples, n, self.num_keys) + 1
        values = distinct(stream(*path, VALUES), examples, n, self.num_values) + self.num_keys + 1
        places = (load.seq_len - context) // 2
        gaps = power_law_places(stream(*path, GAPS), examples, n, places, self.power_a)

        pairs, size = torch.stack([keys, values], -1).flatten(1), load.seq_len - context
        filling = fill(self.filler, stream(*path, FILLER), examples, size, pairs, self.vocab_size)
        inputs, positions = asked_behind(pairs.repeat(1, self.num_passes), filling, keys[..., None], gaps)
        latest = torch.arange(context - 2 * n, context, 2, device=examples.device)
        return Batch(inputs, positions, answers=values, groups={"distance": positions - latest})

    def _fits(self, where: str, load: Pairs) -> None:
        at_least(f"{where}.num_kv_pairs", load.num_kv_pairs, 1)
        if load.seq_len % 2:
            raise ValueError(f"{where}.seq_len (={load.seq_len}) must be even; use {load.seq_len + 1}.")
        n, passes = load.num_kv_pairs, self.num_passes
        factor = 2 * (passes + 1)
        if factor * n > load.seq_len:
            raise ValueError(
                f"{where} does not fit: {factor} * num_kv_pairs (={n}) must be at most seq_len "
                f"(={load.seq_len}) with num_passes={passes}; "
                f"use up to {load.seq_len // factor} pairs or {factor * n} tokens."
            )
        self._check_tokens(where, load)

    def _check_tokens(self, where: str, load: Pairs) -> None:
        check_keys(where, load, self.vocab_size)
