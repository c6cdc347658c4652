"""Draw the random numbers of some rows of a segment, from one stream for each purpose."""

from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.counter_rng import below, bits, stream
from zoo.tasks import sampling


class For(IntEnum):
    """Purposes of draws, each with its own stream.  Append new ones: a row is a function of these numbers."""

    KEYS, KEY_TAILS, VALUES, VALUE_TAILS, PLACES, ASKED, TEXT, TOPICS, SHUFFLE = range(9)


@dataclass(frozen=True)
class Draws:
    """Draws for some rows, each [B, slots].  path: names the segment, see `zoo.common.counter_rng.stream`."""

    path: tuple[int, ...]
    examples: Int[Tensor, " B"]

    def bits(self, what: For, slots: int) -> Int[Tensor, "B slots"]:
        """Draw 64 random bits for each slot."""
        return bits(stream(*self.path, what), self.examples, slots)

    def below(self, what: For, slots: int, count: int) -> Int[Tensor, "B slots"]:
        """Draw uniform numbers 0 to count - 1, with replacement."""
        return below(self.bits(what, slots), count)

    def distinct(self, what: For, slots: int, pool: int) -> Int[Tensor, "B slots"]:
        """Draw uniform numbers 0 to pool - 1, without replacement."""
        return sampling.distinct(stream(*self.path, what), self.examples, slots, pool)

    def order(self, what: For, count: int) -> Int[Tensor, "B count"]:
        """Draw a permutation of 0..count-1."""
        return self.bits(what, count).argsort()

    def columns(self, tokens: Int[Tensor, " w"]) -> Int[Tensor, "B w"]:
        """Return the same tokens for every row, on the device of the examples."""
        return tokens.to(self.examples.device).expand(len(self.examples), -1)

    def range(self, count: int) -> Int[Tensor, " count"]:
        """Return 0 to count - 1 on the device of the examples."""
        return torch.arange(count, device=self.examples.device)
