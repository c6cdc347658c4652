"""Associative recall with one question: a row shows pairs of key and value and ends on one of the keys.

    k_0 v_0 ... k_{n-1} v_{n-1}   filler   k_j          answer: v_j, read off at the last token

Keys are uniform without replacement from 1..H-1 and values from H..V-1, with H = V/2 rounded up; the question
is uniform over the pairs (Graves et al. 2014, Ba et al. 2016).

RepeatedPairs is the setting of H3 and Hyena (Dao et al. 2022, arXiv 2212.14052; HazyResearch/safari): each of
the H-1 keys has a value drawn with replacement, pairs are drawn with replacement too, the question is uniform
over the keys shown, and a mark (token 0) stands before the question.  Their vocabulary has one more token,
which is never used.  They train on the next token everywhere; here only the answer is scored.
"""

from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import Any, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.context import DEPTH, Filler, Pairs, bits_of_different, fill, last_place, tenth
from zoo.tasks.groups import Distance
from zoo.tasks.mixture import Load, Mixture
from zoo.tasks.sampling import distinct

KEYS, VALUES, QUERY, FILLER = range(4)
MARK = 0


@dataclass(frozen=True, kw_only=True)
class Repeats(Load):
    """A segment whose rows show num_kv_pairs pairs; the same pair may come more than once."""

    seq_len: int = 0  # follows: 2 * num_kv_pairs + 2
    num_kv_pairs: int


class _Single(Mixture):
    """Rows of pairs that end on the only question."""

    load = "num_kv_pairs"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH})

    @property
    def _half(self) -> int:
        return (self.vocab_size + 1) // 2

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same value."""
        return 1 / (self.vocab_size - self._half)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the token after the key's first even place: the pairs stand before all filler."""
        before = inputs[:, : (inputs.shape[1] - 1) // 2 * 2]
        keys, values = before.unflatten(1, (-1, 2)).unbind(2)
        query = inputs.gather(1, positions)
        return values.gather(1, (keys[:, None] == query[..., None]).int().argmax(-1))

    def _draw_query(self, context: Tensor, between: Tensor, pair: Int[Tensor, "B 1"]) -> Batch:
        """Return the batch whose rows ask for the key of `pair`, the index of a pair, at the last token."""
        keys, values = context.unflatten(1, (-1, 2)).unbind(2)
        inputs = torch.cat([context, between, keys.gather(1, pair)], 1)
        last = inputs.shape[1] - 1
        groups = {"distance": last - 2 * pair, "depth": tenth(pair, keys.shape[1])}
        return Batch(inputs, torch.full_like(pair, last), values.gather(1, pair), groups)

    def _enough(self, where: str, load: Load, needed: int) -> None:
        n, keys = load.slice()["num_kv_pairs"], self._half - 1
        if min(keys, self.vocab_size - self._half) < needed:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has {max(keys, 0)} keys, too few for "
                f"{where}.num_kv_pairs (={n}); use at least {2 * needed + 1}."
            )


class SingleQuestion(_Single):
    """Recall of different pairs with one question.  Args, besides those of Mixture:

    vocab_size: V; token 0 is neither key nor value.
    filler: see zoo.tasks.context.fill.
    """

    load_kind = Pairs

    def __init__(self, *, filler: Filler, **mixture: Any):
        one_of("task.filler", filler, get_args(Filler))
        self.filler: Filler = filler
        super().__init__(**mixture)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold which value each key has, because any key may be asked."""
        return bits_of_different(segment.count("num_kv_pairs"), self.vocab_size - self._half)

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, half = load.num_kv_pairs, self._half
        keys = distinct(stream(*path, KEYS), examples, n, half - 1) + 1
        values = distinct(stream(*path, VALUES), examples, n, self.vocab_size - half) + half
        context, size = torch.stack([keys, values], -1).flatten(1), load.seq_len - 1 - 2 * n
        between = fill(self.filler, stream(*path, FILLER), examples, size, context, self.vocab_size)
        return self._draw_query(context, between, below(bits(stream(*path, QUERY), examples, 1), n))

    def _fits(self, where: str, load: Pairs) -> None:
        n = load.num_kv_pairs
        at_least(f"{where}.num_kv_pairs", n, 1)
        if load.seq_len < 2 * n + 1:
            raise ValueError(
                f"{where} does not fit: 2 * num_kv_pairs (={n}) + 1 must be at most seq_len "
                f"(={load.seq_len}); use up to {(load.seq_len - 1) // 2} pairs or {2 * n + 1} tokens."
            )
        self._enough(where, load, n)


class RepeatedPairs(_Single):
    """Recall of repeated pairs with one question; of vocab_size tokens 0 is the mark.  See Mixture."""

    load_kind = Repeats

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the value of each key shown, in a row that shows as many keys as it can."""
        shown = min(segment.count("num_kv_pairs"), self._half - 1)
        return shown * log2(self.vocab_size - self._half)

    def _rows(self, load: Repeats, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        half = self._half
        bound = below(bits(stream(*path, VALUES), examples, half - 1), self.vocab_size - half) + half
        drawn = below(bits(stream(*path, KEYS), examples, load.num_kv_pairs), half - 1)
        shown = torch.zeros_like(bound, dtype=torch.bool).scatter_(1, drawn, True)
        race = bits(stream(*path, QUERY), examples, half - 1)
        key = race.where(shown, torch.iinfo(race.dtype).min).argmax(1, keepdim=True)
        context = torch.stack([drawn + 1, bound.gather(1, drawn)], -1).flatten(1)
        return self._draw_query(context, torch.full_like(key, MARK), last_place(drawn, key))

    def _length(self, load: Repeats) -> int:
        return 2 * load.num_kv_pairs + 2

    def _fits(self, where: str, load: Repeats) -> None:
        at_least(f"{where}.num_kv_pairs", load.num_kv_pairs, 1)
        self._enough(where, load, 1)
