"""Chunks of a sequence.  R chunks (rows), T new tokens; positions are absolute, from 0."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor


class Chunks(NamedTuple):
    """The chunks that the new tokens of a call lie in; the first may have begun before the call."""

    numbers: Int[Tensor, "R"]  # counted from the start of the sequence
    starts: Int[Tensor, "R"]
    tokens: Int[Tensor, "T"]  # positions of the new tokens
    of_token: Int[Tensor, "T"]  # the row of `starts` that a new token belongs to
    first: int  # position of the first new token
    last_start: int  # of the last chunk
    size: int | None  # of every chunk; None: they differ

    @property
    def first_token(self) -> Int[Tensor, "R"]:
        """Return the row of `tokens` where a chunk begins; 0 for a chunk that began before the call."""
        return (self.starts - self.first).clamp(min=0)

    @property
    def offset(self) -> int:
        """Return how many tokens of the first chunk come before the call; 0 where sizes differ."""
        return 0 if self.size is None else self.first % self.size


def fixed_chunks(chunk_size: int, first: int, length: int, device: torch.device) -> Chunks:
    """Return chunks of one size that hold tokens first .. first+length-1; nothing is copied to the device."""
    number, last = first // chunk_size, (first + length - 1) // chunk_size
    numbers = torch.arange(number, last + 1, device=device)
    tokens = torch.arange(first, first + length, device=device)
    of_token = tokens // chunk_size - number
    return Chunks(numbers, numbers * chunk_size, tokens, of_token, first, last * chunk_size, chunk_size)


def drawn_chunks(
    sizes: Sequence[int], per_chunk: bool, seed: int, number: int, length: int, device: torch.device
) -> Chunks:
    """Return chunks with sizes drawn from `sizes`, one for all or one each, by `seed` and draw `number`."""
    rng = random.Random(f"{seed}/{number}")
    size = rng.choice(sizes)
    if not per_chunk:
        return fixed_chunks(size, 0, length, device)
    starts = [0]
    while starts[-1] + size < length:
        starts.append(starts[-1] + size)
        size = rng.choice(sizes)
    at, tokens = torch.tensor(starts, device=device), torch.arange(length, device=device)
    of_token = torch.bucketize(tokens, at, right=True) - 1
    return Chunks(torch.arange(len(starts), device=device), at, tokens, of_token, 0, starts[-1], None)
