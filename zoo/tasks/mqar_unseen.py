"""MQAR that also asks for keys which the row never bound: the right answer is then NONE.

A row is one of MQAR with one pass; then each question, with probability `unseen`, asks for a key that stands
nowhere in the context, and its answer is the reserved token NONE, the last of the vocabulary.
Keys come from 1..W/2-1 and values from W/2..W-1, with W = V - 1.  (Definition: ours.)

In the group `binding`, 1 - accuracy of "unbound" is how often something is recalled that was never bound
(false recall); a bound key that is answered with NONE (missed recall) lowers the accuracy of "bound".

The distance of an unbound key reaches to the first token of the row: to know takes the whole context.
"""

from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.counter_rng import bits, stream, uniform
from zoo.tasks.base import Batch, Segment
from zoo.tasks.context import (
    DEPTH,
    AskedLater,
    Pairs,
    asked_behind,
    bits_of_different,
    bits_of_subset,
    check_room,
    fill,
    tenth,
)
from zoo.tasks.groups import Distance, Words
from zoo.tasks.sampling import distinct, power_law_places

KEYS, VALUES, UNSEEN, GAPS, FILLER = range(5)


class UnseenMQAR(AskedLater):
    """MQAR with unbound questions.  Args, besides those of AskedLater:

    vocab_size: V, NONE included.
    unseen: the probability that a question asks for a key that the row never bound.
    """

    load_kind, load = Pairs, "num_kv_pairs"
    groups = MappingProxyType(
        {"distance": Distance(), "depth": DEPTH, "binding": Words(("bound", "unbound"))}
    )

    def __init__(self, *, unseen: float, **settings: Any):
        if not 0 <= unseen <= 1:
            raise ValueError(f"task.unseen (={unseen}) must be between 0 and 1: it is a probability.")
        self.unseen = unseen
        super().__init__(**settings)
        self.spoken = (self.none,)

    @property
    def none(self) -> int:
        """Return the token that answers a key without a value."""
        return self.vocab_size - 1

    @property
    def num_values(self) -> int:
        return self.none - self.none // 2

    def chance(self, segment: Segment) -> float:
        """Return the score of the better guess: always NONE, or always the same value."""
        return max(self.unseen, (1 - self.unseen) / self.num_values)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold which keys have which values; less if questions are all bound or all unbound."""
        n = segment.count("num_kv_pairs")
        which = bits_of_subset(n, self.none // 2 - 1) if self.unseen else 0.0
        return which + bits_of_different(n, self.num_values) if self.unseen < 1 else 0.0

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the token after the key among the pairs, or NONE; there are as many pairs as questions."""
        keys, values = inputs[:, : 2 * positions.shape[1]].unflatten(1, (-1, 2)).unbind(2)
        same = keys[:, None] == inputs.gather(1, positions)[..., None]
        return values.gather(1, same.int().argmax(-1)).where(same.any(-1), self.none)

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, half = load.num_kv_pairs, self.none // 2
        keys = distinct(stream(*path, KEYS), examples, 2 * n, half - 1) + 1  # n are bound, n may be asked for
        values = distinct(stream(*path, VALUES), examples, n, self.none - half) + half
        unbound = uniform(bits(stream(*path, UNSEEN), examples, n)) < self.unseen
        queries = keys[:, n:].where(unbound, keys[:, :n])

        context, size = torch.stack([keys[:, :n], values], -1).flatten(1), load.seq_len - 2 * n
        gaps = power_law_places(stream(*path, GAPS), examples, n, size // 2, self.power_a)
        taken = torch.cat([keys, values], 1)
        filling = fill(self.filler, stream(*path, FILLER), examples, size, taken, self.none)
        inputs, positions = asked_behind(context, filling, queries[..., None], gaps)

        pair = torch.arange(n, device=examples.device).expand_as(positions)
        read = torch.zeros_like(pair).where(unbound, pair)
        groups = MappingProxyType(
            {"distance": positions - 2 * read, "depth": tenth(read, n), "binding": unbound.long()}
        )
        answers = torch.full_like(values, self.none).where(unbound, values)
        return Batch(inputs, positions, answers, groups)

    def _fits(self, where: str, load: Pairs) -> None:
        n, keys = load.num_kv_pairs, self.none // 2 - 1
        check_room(where, load, each=4)
        if keys < 2 * n:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has {max(keys, 0)} keys, too few for "
                f"{where}.num_kv_pairs (={n}), which asks for as many others; use at least {4 * n + 3}."
            )
