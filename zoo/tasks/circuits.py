"""Circuits: parity, majority and their running forms, as HazyResearch/zoology has them
(zoology/data/circuits.py).

    parity, majority       seq_len - 1 random bits and a closing 2; asked there
    cum_majority           seq_len random bits; asked at every one of them, for those so far
    vocab_majority         seq_len - 1 tokens, uniform over 1..V-1, and a closing 0; asked there

(The running parity is zoo.tasks.state_tracking.WordProblem with the group Z2.)  Ties as there: `majority`
says 0, `cum_majority` 1; in `vocab_majority` the smallest of the winners gets one token more, in place of the
first token that is another, and no row has a tie.  A row of few bits is one of few: below about 30 of them
the splits share rows.
"""

from abc import abstractmethod
from collections.abc import Iterable
from functools import cache
from math import comb, exp, lgamma, log, log2
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.groups import Words
from zoo.tasks.mixture import Load, Mixture, OwnVocabulary

END = 2
TOKENS = 0
TOKENS_READ = Words(("1", "2", *(f"{2**i + 1}-{2 ** (i + 1)}" for i in range(1, 22))))


def tokens_read(positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
    """Return the index in TOKENS_READ of each position: how many tokens its answer depends on."""
    return (positions + 1).double().log2().ceil().long()


def tie(count: int) -> float:
    """The probability that of so many random bits half are ones."""
    return 0.0 if count % 2 else comb(count, count // 2) / 2**count


def _most(states: Iterable[set[int]]) -> float:
    """Bits of the largest set: of what has to be told apart, at each place of a row."""
    return log2(max(map(len, states)))


class _OfBits(OwnVocabulary):
    """A computation on bits that is asked once, at the closing token."""

    kind, tokens = "computation", 3

    def _fits(self, where: str, load: Load) -> None:
        at_least(f"{where}.seq_len", load.seq_len, 2)

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        inputs = below(bits(stream(*path, TOKENS), examples, load.seq_len), 2)
        inputs[:, -1] = END
        ones = inputs[:, :-1].sum(1, keepdim=True)
        return Batch(inputs, torch.full_like(ones, load.seq_len - 1), self._said(ones, load.seq_len - 1))

    @staticmethod
    @abstractmethod
    def _said(ones: Int[Tensor, "B 1"], count: int) -> Int[Tensor, "B 1"]:
        """The answers where so many of `count` bits are ones."""


class Parity(_OfBits):
    """Say whether the number of ones is odd."""

    def least_bits(self, segment: Segment) -> float | None:
        """The parity so far."""
        return 1.0

    def chance(self, segment: Segment) -> float:
        """Either."""
        return 0.5

    def _next(self, past: list[int]) -> int:
        return past.count(1) % 2

    @staticmethod
    def _said(ones: Int[Tensor, "B 1"], count: int) -> Int[Tensor, "B 1"]:
        return ones & 1


class Majority(_OfBits):
    """Say whether more than half of the bits are ones."""

    def least_bits(self, segment: Segment) -> float | None:
        """The ones so far, as far as the rest can still decide."""
        count = segment.seq_len - 1
        return _most(
            {min(max(count // 2 + 1 - ones, 0), count - read + 1) for ones in range(read + 1)}
            for read in range(count + 1)
        )

    def chance(self, segment: Segment) -> float:
        """Zero, which also has the ties."""
        return (1 + tie(segment.seq_len - 1)) / 2

    def _next(self, past: list[int]) -> int:
        return int(past.count(1) > past.count(0))

    @staticmethod
    def _said(ones: Int[Tensor, "B 1"], count: int) -> Int[Tensor, "B 1"]:
        return (2 * ones > count).long()


class CumMajority(OwnVocabulary):
    """Say at every bit whether at least half of the bits so far are ones."""

    kind, tokens = "computation", 2
    groups = MappingProxyType({"tokens": TOKENS_READ})

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the lead of ones over zeros so far, as far as the rest can still turn it."""
        count = segment.seq_len
        return _most(
            {max(read - count - 1, min(count - read, lead)) for lead in range(-read, read + 1, 2)}
            for read in range(count + 1)
        )

    def chance(self, segment: Segment) -> float:
        """One, which also has the ties."""
        counts = range(1, segment.seq_len + 1)
        return sum((1 + tie(count)) / 2 for count in counts) / len(counts)

    def _next(self, past: list[int]) -> int:
        return int(past.count(1) >= past.count(0))

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        inputs = below(bits(stream(*path, TOKENS), examples, load.seq_len), 2)
        positions = torch.arange(load.seq_len, device=examples.device).expand_as(inputs)
        answers = ((2 * inputs - 1).cumsum(1) >= 0).long()
        return Batch(inputs, positions, answers, {"tokens": tokens_read(positions)})


class VocabMajority(Mixture):
    """The most frequent token; vocab_size: 0 is the closing token, all others are counted."""

    kind = "computation"

    def _fits(self, where: str, load: Load) -> None:
        at_least("task.vocab_size", self.vocab_size, 3)
        at_least(f"{where}.seq_len", load.seq_len, 2)

    def chance(self, segment: Segment) -> float:
        """Token 1, to which every tie that it is in goes."""
        return first_wins(segment.seq_len - 1, self.vocab_size - 1)

    def _next(self, past: list[int]) -> int:
        return max(set(past[:-1]), key=past.count)

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        tokens = below(bits(stream(*path, TOKENS), examples, load.seq_len - 1), self.vocab_size - 1) + 1
        counts = tokens.new_zeros(len(tokens), self.vocab_size)
        counts.scatter_add_(1, tokens, torch.ones_like(tokens))
        most = counts.max(1, keepdim=True).values
        winner = (counts == most).long().argmax(1, keepdim=True)  # the smallest
        tied = (counts == most).sum(1, keepdim=True) > 1
        other = (tokens != winner).long().argmax(1, keepdim=True)
        tokens.scatter_(1, other, torch.where(tied, winner, tokens.gather(1, other)))
        inputs = torch.nn.functional.pad(tokens, (0, 1))
        return Batch(inputs, torch.full_like(winner, load.seq_len - 1), winner)


@cache
def first_wins(count: int, symbols: int) -> float:
    """The probability that of `count` uniform draws no symbol has more than the first.

    The counts are independent Poisson numbers given their sum, so it is a coefficient of a product of
    truncated power series.
    """
    rate = count / symbols
    weight = np.array([exp(c * log(rate) - rate - lgamma(c + 1)) for c in range(count + 1)])
    total = exp(count * log(count) - count - lgamma(count + 1))
    others = (_power(weight[: c + 1], symbols - 1, count + 1) for c in range(count + 1))
    return float(sum(weight[c] * series[count - c] for c, series in enumerate(others)) / total)


def _power(series: np.ndarray, exponent: int, size: int) -> np.ndarray:
    """series ** exponent as a power series of `size` coefficients."""
    result = np.eye(1, size)[0]
    while exponent:
        if exponent % 2:
            result = np.convolve(result, series)[:size]
        series, exponent = np.convolve(series, series)[:size], exponent // 2
    return result
