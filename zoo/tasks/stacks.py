"""Last in, first out: the tasks besides MQAR of Kimi Team 2025, "Kimi Linear" (arXiv 2510.26692), 5.1.

    palindrome   letters, a mark, and the letters again from the last to the first; each of these letters but
                 the first is asked, at the letter before it
    stack        operations of three tokens, `push id letter` and `pop id letter`, on numbered stacks; asked
                 at the id of a pop is its letter: the last one pushed there and not popped

Our choice, because the report does not state it: how many letters there are, and which operation comes when.
The id is uniform, and a stack that is not empty is popped with probability 1/2; the operation before the last
pushes, and the last pops any stack that is not empty.  Theirs: 64 stacks, rows of 256 to 2,048 tokens.
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

IDS, ACTS, LETTERS, LAST = range(4)
PUSH, POP = range(2)


@dataclass(frozen=True, kw_only=True)
class Reversed(Load):
    """A segment of rows with `length` letters, twice."""

    seq_len: int = 0  # follows: 2 * length
    length: int


class Palindrome(Mixture):
    """The palindrome task; the last of vocab_size tokens is the mark, and all others are letters."""

    load_kind, load = Reversed, "length"
    groups = MappingProxyType({"distance": Distance()})

    def _fits(self, where: str, load: Reversed) -> None:
        at_least("task.vocab_size", self.vocab_size, 3)
        at_least(f"{where}.length", load.length, 2)

    def _length(self, load: Reversed) -> int:
        """Return 2 * length: the last of the reversed letters is an answer but not an input."""
        return 2 * load.length

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same letter."""
        return 1 / (self.vocab_size - 1)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold all letters but the last, which is shown again and not asked."""
        return (segment.count("length") - 1) * log2(self.vocab_size - 1)

    def _next(self, past: list[int]) -> int:
        mark = past.index(self.vocab_size - 1)
        return past[2 * mark - len(past)]

    def _rows(self, load: Reversed, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        letters = below(bits(stream(*path, LETTERS), examples, load.length), self.vocab_size - 1)
        mark = torch.full_like(letters[:, :1], self.vocab_size - 1)
        inputs = torch.cat([letters, mark, letters[:, 1:].flip(1)], dim=1)
        answers = letters[:, :-1].flip(1)
        later = torch.arange(load.length - 1, device=examples.device).expand_as(answers)
        return Batch(inputs, load.length + 1 + later, answers, {"distance": 3 + 2 * later})


@dataclass(frozen=True, kw_only=True)
class Operations(Load):
    """A segment of rows with num_operations operations of three tokens."""

    seq_len: int = 0  # follows: 3 * num_operations
    num_operations: int


class Stack(OwnVocabulary):
    """The stack task.  Args, besides those of a mixture:

    stacks: how many stacks there are.
    letters: how many letters there are.  Tokens: push, pop, the ids, the letters.
    """

    load_kind, load = Operations, "num_operations"
    groups = MappingProxyType({"distance": Distance()})

    def __init__(self, *, stacks: int, letters: int, **mixture: Any):
        at_least("task.stacks", stacks, 1)
        at_least("task.letters", letters, 2)
        self.stacks, self.letters, self.first_letter = stacks, letters, 2 + stacks
        self.tokens = 2 + stacks + letters
        super().__init__(**mixture)

    def _fits(self, where: str, load: Operations) -> None:
        at_least(f"{where}.num_operations", load.num_operations, 2)

    def _length(self, load: Operations) -> int:
        return 3 * load.num_operations

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same letter."""
        return 1 / self.letters

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the letters of the pushes that later operations, on any stack, can pop."""
        turns = segment.count("num_operations")
        pops = {pushes: turns - pushes - 1 - (self.stacks == 1) for pushes in range(1, turns)}
        pops[turns - 1] = 1
        return max(min(pushes, self.stacks * deep) for pushes, deep in pops.items()) * log2(self.letters)

    def _next(self, past: list[int]) -> int:
        held: dict[int, list[int]] = {}
        for act, where, letter in zip(past[:-2:3], past[1:-2:3], past[2:-2:3], strict=True):
            held.setdefault(where, []).append(letter) if act == PUSH else held[where].pop()
        return held[past[-1]][-1]

    def _rows(self, load: Operations, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        turns, rows = load.num_operations, len(examples)
        where = below(bits(stream(*path, IDS), examples, turns), self.stacks)
        act = below(bits(stream(*path, ACTS), examples, turns), 2)
        letter = below(bits(stream(*path, LETTERS), examples, turns), self.letters) + self.first_letter
        order = below(bits(stream(*path, LAST), examples, self.stacks), 2**22)
        act[:, -2], act[:, -1] = PUSH, POP
        held, source = where.new_zeros(rows, self.stacks), torch.zeros_like(where)
        pushed = where.new_zeros(rows, self.stacks * turns)  # the turn of each place of each stack
        for turn in range(turns):
            now, here = act[:, [turn]], where[:, [turn]]
            if turn == turns - 1:
                here = where[:, [turn]] = order.where(held > 0, -1).argmax(1, keepdim=True)
            height = held.gather(1, here)
            now[height == 0] = PUSH
            place = here * turns + height - now
            source[:, [turn]] = pushed.gather(1, place).where(now == POP, turn)
            pushed.scatter_(1, place, source[:, [turn]])
            held.scatter_add_(1, here, 1 - 2 * now)
            act[:, [turn]] = now
        inputs = torch.stack([act, 2 + where, letter.gather(1, source)], 2).flatten(1)
        places = torch.arange(turns, device=examples.device).expand_as(act)
        answers = inputs[:, 2::3].where(act == POP, IGNORED)
        distance = (3 * (places - source) - 1).clamp(min=1)
        return Batch(inputs, 3 * places + 1, answers, {"distance": distance})
