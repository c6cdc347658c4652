"""MQAR with key and value side by side in one place: a single mixer without a convolution suffices.

HazyResearch/zoology's continuous MQAR (zoology/data/stacked_mqar.py, January 2026).  A row shows its n pairs
P times, each time in a different order, and then asks for all keys in one more order; L = (P + 1) n.  The
model's inputs are vectors: the frozen embedding of the key beside that of the value, or beside zeros where
the key is asked.  The model chooses among all V/2 values by the dot product with their embeddings.

Tokens: see `stacked` of Task in zoo.tasks.base.  The key k with the value v is the id k + M (v + 1), M = V/2;
a key alone is k; an answer is v, 0 <= k, v < M.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.context import DEPTH, bits_of_different, last_place, tenth
from zoo.tasks.groups import Distance
from zoo.tasks.mixture import Load, Mixture
from zoo.tasks.sampling import distinct, permutation

KEYS, VALUES, QUERIES, SHOWN = range(4)


@dataclass(frozen=True, kw_only=True)
class Stacks(Load):
    """A segment whose rows show num_kv_pairs pairs."""

    seq_len: int = 0  # follows: (num_passes + 1) * num_kv_pairs
    num_kv_pairs: int


class StackedMQAR(Mixture):
    """MQAR with stacked keys and values.  Args, besides those of Mixture:

    vocab_size: V, even: half of it are keys and half are values.
    num_passes: P, how often the pairs are shown.
    """

    load_kind, load = Stacks, "num_kv_pairs"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH})
    stacked = True

    def __init__(self, *, num_passes: int, **mixture: Any):
        at_least("task.num_passes", num_passes, 1)
        self.num_passes = num_passes
        super().__init__(**mixture)

    @property
    def _values(self) -> int:
        return self.vocab_size // 2

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same value."""
        return 1 / self._values

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold which value each key has, when all pairs have been shown."""
        return bits_of_different(segment.count("num_kv_pairs"), self._values)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the value beside the key's last place before the questions; each pair has one question."""
        shown = inputs[:, : inputs.shape[1] - positions.shape[1]]
        place = last_place(shown % self._values, inputs.gather(1, positions))
        return shown.gather(1, place) // self._values - 1

    def _rows(self, load: Stacks, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, passes = load.num_kv_pairs, self.num_passes
        keys = distinct(stream(*path, KEYS), examples, n, self._values)
        values = distinct(stream(*path, VALUES), examples, n, self._values)
        inputs = keys.new_empty(len(examples), load.seq_len)
        place = keys
        for turn in range(passes):
            place = permutation(stream(*path, SHOWN, turn), examples, n)
            inputs.scatter_(1, n * turn + place, keys + self._values * (values + 1))
        positions = n * passes + permutation(stream(*path, QUERIES), examples, n)
        inputs.scatter_(1, positions, keys)
        latest = n * (passes - 1) + place
        return Batch(inputs, positions, values, {"distance": positions - latest, "depth": tenth(place, n)})

    def _length(self, load: Stacks) -> int:
        return (self.num_passes + 1) * load.num_kv_pairs

    def _fits(self, where: str, load: Stacks) -> None:
        n = load.num_kv_pairs
        at_least(f"{where}.num_kv_pairs", n, 1)
        if self.vocab_size % 2:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) must be even, half keys and half values; "
                f"use {self.vocab_size + 1}."
            )
        if self._values < n:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has {self._values} keys, too few for "
                f"{where}.num_kv_pairs (={n}); use at least {2 * n}."
            )
