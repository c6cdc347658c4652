"""Copying tasks: write a string again, or write again the data that stood among noise.

Copy: Jelassi et al. 2024, "Repeat after me: transformers are better than state space models at copying".  A
row is packed with examples `$ a_1 .. a_l | a_1 .. a_l .`, letters uniform, l uniform in shortest..longest.
The letters of the second string are asked; an example that the row's end cuts off is shown but not asked.

SelectiveCopy: Gu & Dao 2023, "Mamba", section 4.1.1, after Jing et al. 2019.  A row has m data tokens at
random places among noise, then m markers; at marker j the j-th data token is asked.
"""

from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import IGNORED, Batch, Segment
from zoo.tasks.groups import Distance
from zoo.tasks.mixture import Load, Mixture, OwnVocabulary
from zoo.tasks.sampling import distinct

LENGTHS, LETTERS = range(2)
PLACES, DATA_TOKENS = range(2)


@dataclass(frozen=True, kw_only=True)
class Strings(Load):
    """A segment of rows packed with strings of `shortest` to `longest` letters."""

    shortest: int
    longest: int


class Copy(OwnVocabulary):
    """A task that asks for a string again.  Args, besides those of a mixture:

    letters: how many letters there are, with ids from 0; then come $, | and the end.

    A row of 2 l + 3 tokens with shortest = longest = l is one string: the share of exact rows is then the
    string accuracy.
    """

    load_kind, load = Strings, "longest"
    groups = MappingProxyType({"distance": Distance()})

    def __init__(self, *, letters: int, **mixture: Any):
        at_least("task.letters", letters, 2)
        self.letters, self.start, self.bar, self.end = letters, letters, letters + 1, letters + 2
        self.tokens = letters + 3
        super().__init__(**mixture)

    def _fits(self, where: str, load: Strings) -> None:
        at_least(f"{where}.shortest", load.shortest, 1)
        at_least(f"{where}.longest", load.longest, load.shortest)
        if load.seq_len < 2 * load.longest + 3:
            raise ValueError(
                f"{where}.seq_len (={load.seq_len}) must hold a string twice and three signs: "
                f"2 * longest (={load.longest}) + 3; use {2 * load.longest + 3}."
            )

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same letter."""
        return 1 / self.letters

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the longest string."""
        return segment.count("longest") * log2(self.letters)

    def _next(self, past: list[int]) -> int:
        bar = len(past) - 1 - past[::-1].index(self.bar)
        string = past[bar - past[bar::-1].index(self.start) + 1 : bar]
        return string[len(past) - 1 - bar]

    def _rows(self, load: Strings, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        time, most = load.seq_len, -(-load.seq_len // (2 * load.shortest + 3))
        kinds = load.longest - load.shortest + 1
        lengths = below(bits(stream(*path, LENGTHS), examples, most), kinds) + load.shortest
        ends = (2 * lengths + 3).cumsum(1)
        t = torch.arange(time, device=examples.device).expand(len(examples), time)
        which = torch.searchsorted(ends, t.contiguous(), right=True)
        length = lengths.gather(1, which)
        inside = t - (ends.gather(1, which) - 2 * length - 3)  # places since the example's $
        letters = below(bits(stream(*path, LETTERS), examples, time), self.letters)
        again = letters.gather(1, (t - length - 1).clamp(min=0))
        inputs = torch.where(inside > length, again, letters)
        inputs.masked_fill_(inside == 0, self.start)
        inputs.masked_fill_(inside == length + 1, self.bar)
        inputs.masked_fill_(inside == 2 * length + 2, self.end)
        scored = (inside > length) & (inside <= 2 * length) & (ends.gather(1, which) <= time)
        answers = torch.where(scored, inputs.roll(-1, 1), IGNORED)
        return Batch(inputs, t, answers, {"distance": length})


@dataclass(frozen=True, kw_only=True)
class Selected(Load):
    """A segment whose rows hold num_tokens data tokens."""

    num_tokens: int


class Selecting(Mixture):
    """The base of tasks that ask for data tokens again in order; all but two of the vocabulary are data."""

    load_kind, load = Selected, "num_tokens"
    groups = MappingProxyType({"distance": Distance()})
    besides = 0  # tokens of a row that are neither data nor places where data are asked

    def _fits(self, where: str, load: Selected) -> None:
        needed = 2 * load.num_tokens + self.besides
        at_least("task.vocab_size", self.vocab_size, 4)
        at_least(f"{where}.num_tokens", load.num_tokens, 1)
        if load.seq_len < needed:
            raise ValueError(
                f"{where}.seq_len (={load.seq_len}) is too short for num_tokens "
                f"(={load.num_tokens}): use {needed}."
            )

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same data token."""
        return 1 / (self.vocab_size - 2)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold all data tokens, in order."""
        return segment.count("num_tokens") * log2(self.vocab_size - 2)


class SelectiveCopy(Selecting):
    """Selective copying; of vocab_size tokens 0 is noise, the last is the marker, and all others are data."""

    def _next(self, past: list[int]) -> int:
        data = [token for token in past if 0 < token < self.vocab_size - 1]
        return data[past.count(self.vocab_size - 1) - 1]

    def _rows(self, load: Selected, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        m, content = load.num_tokens, load.seq_len - load.num_tokens
        places = distinct(stream(*path, PLACES), examples, m, content).sort().values
        data = below(bits(stream(*path, DATA_TOKENS), examples, m), self.vocab_size - 2) + 1
        inputs = examples.new_zeros(len(examples), load.seq_len).scatter_(1, places, data)
        inputs[:, content:] = self.vocab_size - 1
        return at_the_end(inputs, data, places)


def at_the_end(inputs: Int[Tensor, "B T"], data: Int[Tensor, "B m"], places: Int[Tensor, "B m"]) -> Batch:
    """Return the batch that asks, at the last m positions, for the data that stand at these places."""
    m, time = data.shape[1], inputs.shape[1]
    positions = torch.arange(time - m, time, device=inputs.device).expand_as(data)
    return Batch(inputs, positions, data, {"distance": positions - places})
