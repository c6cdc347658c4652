"""MAD's other three tasks: selective copying, compression, memorisation (Poli et al. 2024, "Mechanistic
design and scaling of hybrid architectures", as athms/mad-lab makes its rows).

    selective copying   m data tokens among blanks, the copy token, m blanks; at blank j the j-th data token
    compression         random tokens and a closing one, from whose vector alone a decoder reads all of them
    memorisation        key, slot, key, slot, ...; at each slot the key's value, by a map that never changes

Each blank falls in front of a data token, and each data token is equally likely; so the last data token
stands right before the copy token.
"""

from functools import cached_property
from math import log2
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.copying import DATA_TOKENS, PLACES, Selected, Selecting, at_the_end
from zoo.tasks.mad_recall import ByAnswer
from zoo.tasks.mixture import Load
from zoo.tasks.sampling import distinct

TOKENS = 0
MAP = 0x3A9  # names the stream of the memorised map; no segment's path is (seed, this)


class SelectiveCopying(ByAnswer, Selecting):
    """Selective copying; the last of vocab_size tokens is the copy token, the one before the blank, others
    data."""

    besides = 2  # a blank and the copy token

    def _next(self, past: list[int]) -> int:
        copy = past.index(self.vocab_size - 1)
        return [token for token in past[:copy] if token < self.vocab_size - 2][len(past) - copy - 2]

    def _rows(self, load: Selected, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        m, blank = load.num_tokens, self.vocab_size - 2
        data = below(bits(stream(*path, DATA_TOKENS), examples, m), blank)
        before = below(bits(stream(*path, PLACES), examples, load.seq_len - 2 * m - 1), m)
        blanks = torch.zeros_like(data).scatter_add_(1, before, torch.ones_like(before))
        places = blanks.cumsum(1) + torch.arange(m, device=data.device)
        inputs = data.new_full((len(data), load.seq_len), blank).scatter_(1, places, data)
        inputs[:, -m - 1] = blank + 1
        return at_the_end(inputs, data, places)


class Compression(ByAnswer):
    """Compression; the last of vocab_size tokens closes a row.  Answer i is token i, also the closing one."""

    kind = "computation"
    decoder = True

    def _fits(self, where: str, load: Load) -> None:
        at_least("task.vocab_size", self.vocab_size, 3)
        at_least(f"{where}.seq_len", load.seq_len, 2)

    def chance(self, segment: Segment) -> float:
        """Return the score of guessing always the same token, or always the one that closes every row."""
        closing = 1 / segment.seq_len
        return max(closing, (1 - closing) / (self.vocab_size - 1))

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold every token before the closing one."""
        return (segment.seq_len - 1) * log2(self.vocab_size - 1)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        del positions  # all at the end
        return inputs

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        inputs = below(bits(stream(*path, TOKENS), examples, load.seq_len), self.vocab_size - 1)
        inputs[:, -1] = self.vocab_size - 1
        return Batch(inputs, torch.full_like(inputs, load.seq_len - 1), inputs)


class Memorisation(ByAnswer):
    """Memorisation; the last of vocab_size tokens is the slot; half of the others are keys, half values."""

    kind = "computation"

    def __init__(self, *, vocab_size: int, **mixture: Any):
        at_least("task.vocab_size", vocab_size, 5)
        self.num_keys = (vocab_size - 1) // 2
        super().__init__(vocab_size=vocab_size, **mixture)

    @cached_property
    def values(self) -> Int[Tensor, " K"]:
        """Return the value of each key; values differ from each other and are the same in all splits."""
        pool = self.vocab_size - 1 - self.num_keys
        first = torch.zeros(1, dtype=torch.int64)
        return distinct(stream(self.seed, MAP), first, self.num_keys, pool)[0] + self.num_keys

    def _fits(self, where: str, load: Load) -> None:
        if load.seq_len % 2:
            raise ValueError(f"{where}.seq_len (={load.seq_len}) must be even; use {load.seq_len + 1}.")

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same value."""
        return 1 / self.num_keys

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the key; the key's value is not part of the row."""
        return log2(self.num_keys)

    def _next(self, past: list[int]) -> int:
        return int(self.values[past[-2]])

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        keys = below(bits(stream(*path, TOKENS), examples, load.seq_len // 2), self.num_keys)
        inputs = torch.stack([keys, torch.full_like(keys, self.vocab_size - 1)], 2).flatten(1)
        positions = torch.arange(1, load.seq_len, 2, device=keys.device).expand_as(keys)
        return Batch(inputs, positions, self.values.to(keys.device)[keys])
