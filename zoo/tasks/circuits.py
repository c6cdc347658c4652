"""Circuits: parity, majority and their running forms, as in HazyResearch/zoology, zoology/data/circuits.py.

    parity, majority       seq_len - 1 random bits and a closing 2; the answer is asked at the 2
    cum_majority           seq_len random bits; asked at every bit, about the bits so far
    vocab_majority         seq_len - 1 tokens, uniform over 1..V-1, and a closing 0; asked at the 0

(The running parity is zoo.tasks.state_tracking.WordProblem with the group Z2.)  Ties are as in zoology:
`majority` answers 0, `cum_majority` 1; in `vocab_majority` the smallest of the winners replaces the first
other token, so that no row has a tie.  Few bits make few rows: below about 30 bits the splits share rows.
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
    """Return the probability that exactly half of `count` random bits are ones."""
    return 0.0 if count % 2 else comb(count, count // 2) / 2**count


def _most(states: Iterable[set[int]]) -> float:
    """Return log2 of the size of the largest set; each set holds what must be told apart at one place."""
    return log2(max(map(len, states)))


class _OfBits(OwnVocabulary):
    """A computation on the bits of a row whose result is asked once, at the closing token."""

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
        """Return the answers, given how many of `count` bits are ones."""


class Parity(_OfBits):
    """A task that asks whether the number of ones is odd."""

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the parity so far."""
        return 1.0

    def chance(self, segment: Segment) -> float:
        """Return 1/2: both answers are equally likely."""
        return 0.5

    def _next(self, past: list[int]) -> int:
        return past.count(1) % 2

    @staticmethod
    def _said(ones: Int[Tensor, "B 1"], count: int) -> Int[Tensor, "B 1"]:
        return ones & 1


class Majority(_OfBits):
    """A task that asks whether more than half of the bits are ones."""

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the number of ones so far, as far as the remaining bits can still decide."""
        count = segment.seq_len - 1
        return _most(
            {min(max(count // 2 + 1 - ones, 0), count - read + 1) for ones in range(read + 1)}
            for read in range(count + 1)
        )

    def chance(self, segment: Segment) -> float:
        """The best guess is 0, which is also the answer to ties."""
        return (1 + tie(segment.seq_len - 1)) / 2

    def _next(self, past: list[int]) -> int:
        return int(past.count(1) > past.count(0))

    @staticmethod
    def _said(ones: Int[Tensor, "B 1"], count: int) -> Int[Tensor, "B 1"]:
        return (2 * ones > count).long()


class CumMajority(OwnVocabulary):
    """A task that asks at every bit whether at least half of the bits so far are ones."""

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
        """The best guess is 1, which is also the answer to ties."""
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
    """A task that asks for the most frequent token; of vocab_size tokens all but the closing 0 count."""

    kind = "computation"

    def _fits(self, where: str, load: Load) -> None:
        at_least("task.vocab_size", self.vocab_size, 3)
        at_least(f"{where}.seq_len", load.seq_len, 2)

    def chance(self, segment: Segment) -> float:
        """The best guess is token 1, which wins every tie that it takes part in."""
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
    """Return the probability that in `count` uniform draws no symbol comes more often than the first one.

    The counts are independent Poisson numbers given their sum, so the probability is a coefficient of a
    product of truncated power series.
    """
    rate = count / symbols
    weight = np.array([exp(c * log(rate) - rate - lgamma(c + 1)) for c in range(count + 1)])
    total = exp(count * log(count) - count - lgamma(count + 1))
    others = (_power(weight[: c + 1], symbols - 1, count + 1) for c in range(count + 1))
    return float(sum(weight[c] * series[count - c] for c, series in enumerate(others)) / total)


def _power(series: np.ndarray, exponent: int, size: int) -> np.ndarray:
    """Return series ** exponent as a power series of `size` coefficients."""
    result = np.eye(1, size)[0]
    while exponent:
        if exponent % 2:
            result = np.convolve(result, series)[:size]
        series, exponent = np.convolve(series, series)[:size], exponent // 2
    return result
