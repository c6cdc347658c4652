"""How a sequence is cut into chunks.  R chunks (rows), T new tokens; positions are absolute, from 0."""

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

    @property
    def first_token(self) -> Int[Tensor, "R"]:
        """The row of `tokens` where a chunk begins; 0 for a chunk that began before the call."""
        return (self.starts - self.first).clamp(min=0)


def fixed_chunks(chunk_size: int, first: int, length: int, device: torch.device) -> Chunks:
    """Chunks of one size, under tokens first .. first+length-1."""
    number = first // chunk_size
    starts = range(number * chunk_size, first + length, chunk_size)
    return _chunks([*starts], number, first, length, device)


def drawn_chunks(
    sizes: Sequence[int], per_chunk: bool, seed: int, number: int, length: int, device: torch.device
) -> Chunks:
    """Chunks of sizes drawn from `sizes`, one for all or one each: the draw `number` of `seed`."""
    rng = random.Random(f"{seed}/{number}")
    size = rng.choice(sizes)
    starts = [0]
    while starts[-1] + size < length:
        starts.append(starts[-1] + size)
        size = rng.choice(sizes) if per_chunk else size
    return _chunks(starts, 0, 0, length, device)


def _chunks(starts: list[int], number: int, first: int, length: int, device: torch.device) -> Chunks:
    at, tokens = torch.tensor(starts, device=device), torch.arange(first, first + length, device=device)
    numbers = torch.arange(number, number + len(starts), device=device)
    return Chunks(numbers, at, tokens, torch.bucketize(tokens, at, right=True) - 1, first, starts[-1])
