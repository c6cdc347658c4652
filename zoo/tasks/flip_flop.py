"""Flip-flops: keep one bit through noise; with undo, keep some bits of history.

Liu et al. 2023, "Exposing attention glitches with flip-flop language modeling": a row is pairs of an
instruction (write, ignore, read) and a bit; the bit after a read is the one that was last written.  The first
instruction is a write and the last a read; any other is an ignore with probability p, else a write or a read
with equal chance.  The bit is asked at every read.  1 - accuracy on rows of p = .98 is their glitch rate.

Undo (ours): a fourth instruction takes the last write back.  The memory holds the current bit and at most
`depth` earlier ones, and forgets the oldest first; an undo with nothing to take back becomes an ignore.  The
bit after an undo, like the bit after an ignore, is noise.
"""

from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream, uniform
from zoo.tasks.base import IGNORED, Batch, Segment
from zoo.tasks.groups import Distance, Number
from zoo.tasks.mixture import Load, OwnVocabulary

WRITE, READ, IGNORE, UNDO = range(2, 6)  # after the bits, 0 and 1
INSTRUCTIONS, BITS = range(2)


@dataclass(frozen=True, kw_only=True)
class Noisy(Load):
    """A segment of which ignore_percent of the instructions are ignores."""

    ignore_percent: int


class FlipFlop(OwnVocabulary):
    """The flip-flop task; an instruction and its bit are two tokens of a segment's seq_len."""

    load_kind: ClassVar[type[Load]] = Noisy
    groups = MappingProxyType({"distance": Distance()})
    acts, tokens = (WRITE, READ), 5  # equally likely where nothing is ignored

    def _fits(self, where: str, load: Any) -> None:
        at_least(f"{where}.seq_len", load.seq_len, 4)
        if load.seq_len % 2:
            raise ValueError(f"{where}.seq_len (={load.seq_len}) must be even; use {load.seq_len + 1}.")
        if not 0 <= load.ignore_percent < 100:
            raise ValueError(f"{where}.ignore_percent (={load.ignore_percent}) must be from 0 to below 100.")

    def chance(self, segment: Segment) -> float:
        """Return 1/2: both bits are equally likely."""
        return 0.5

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the bit, or, in rows of more than two turns, that the next token is the bit."""
        return log2(2 + (segment.seq_len > 4))

    def _next(self, past: list[int]) -> int:
        """Return the bit after the last write."""
        turn = max((i for i in range(0, len(past) - 1, 2) if past[i] == WRITE), default=0)
        return past[turn + 1] if len(past) > 1 else 0

    def _rows(self, load: Any, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        act, bit = self._drawn(load, path, examples)
        turn = torch.arange(act.shape[1], device=act.device)
        written = torch.where(act == WRITE, turn, 0).cummax(1).values
        bit = torch.where(act == READ, bit.gather(1, written), bit)
        shown = torch.where(act != IGNORE, turn, 0).cummax(1).values.roll(1, 1)  # before this turn
        return _scored_at_reads(act, bit, shown)

    def _drawn(self, load: Any, path: tuple[int, ...], examples: Tensor) -> tuple[Tensor, Tensor]:
        """Return instructions and random bits, both [B turns]."""
        turns, share = load.seq_len // 2, load.ignore_percent / 100
        u = uniform(bits(stream(*path, INSTRUCTIONS), examples, turns))
        act = ((u - share) / (1 - share) * len(self.acts)).long().clamp(max=len(self.acts) - 1)
        act = torch.where(u < share, IGNORE, torch.tensor(self.acts, device=u.device)[act.clamp(min=0)])
        act[:, 0], act[:, -1] = WRITE, READ
        return act, below(bits(stream(*path, BITS), examples, turns), 2)


def _scored_at_reads(act: Tensor, bit: Tensor, shown: Tensor, **groups: Tensor) -> Batch:
    """Return the batch that asks at reads.  shown: for each read, the latest turn whose bit is the answer."""
    positions = torch.arange(0, 2 * act.shape[1], 2, device=act.device).expand_as(act)
    answers = torch.where(act == READ, bit, IGNORED)
    distance = (positions - 2 * shown - 1).clamp(min=1)
    return Batch(torch.stack([act, bit], 2).flatten(1), positions, answers, {"distance": distance, **groups})


@dataclass(frozen=True, kw_only=True)
class Remembering(Noisy):
    """A segment of which the last `depth` writes can be undone."""

    depth: int


class Undo(FlipFlop):
    """The flip-flop task with undo; an instruction and its bit are two tokens of a segment's seq_len."""

    load_kind, load = Remembering, "depth"
    acts, tokens = (WRITE, READ, UNDO), 6

    def __init__(self, **mixture: Any):
        super().__init__(**mixture)
        deepest = max(load.depth for loads in self._loads.values() for load in loads)  # pyright: ignore
        self.groups = {"distance": Distance(), "depth": Number(deepest + 1)}

    def _fits(self, where: str, load: Any) -> None:
        super()._fits(where, load)
        at_least(f"{where}.depth", load.depth, 1)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the bit and its history, as far as a row has turns to write, undo and read it."""
        return 1.0 + min(segment.count("depth"), segment.seq_len // 4 - 1)

    def _next(self, past: list[int]) -> int:
        """Return the bit of the last write that was not undone."""
        stack = [0]
        for instruction, bit in zip(past[::2], past[1::2], strict=False):
            if instruction == WRITE:
                stack.append(bit)
            elif instruction == UNDO:
                stack.pop()
        return stack[-1]

    def _rows(self, load: Any, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        act, bit = self._drawn(load, path, examples)
        held, written, shown = _undone(act, load.depth)
        bit = torch.where(act == READ, bit.gather(1, written), bit)
        return _scored_at_reads(act, bit, shown, depth=held)


def _undone(act: Int[Tensor, "B n"], depth: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each turn the number of writes that can be undone, the turn that wrote the current bit, and
    the latest earlier turn that showed this bit.  Undos that find nothing become ignores, in place."""
    top = floor = torch.full_like(act[:, :1], -1)  # the top of the stack of writes, and its oldest kept place
    wrote, showed = torch.zeros_like(act), torch.zeros_like(act)  # turns, by height of the stack
    turns_so_far = []
    for turn, now in enumerate(act.split(1, 1)):
        now[(now == UNDO) & (top == floor)] = IGNORE
        top = top + (now == WRITE).long() - (now == UNDO).long()
        floor = torch.maximum(floor, top - depth).clamp(min=0)
        wrote.scatter_(1, top, torch.where(now == WRITE, turn, wrote.gather(1, top)))
        before = showed.gather(1, top)
        showed.scatter_(1, top, torch.where((now == WRITE) | (now == READ), turn, before))
        turns_so_far.append((top - floor, wrote.gather(1, top), before))
    held, written, shown = (torch.cat(column, 1) for column in zip(*turns_so_far, strict=True))
    return held, written, shown
