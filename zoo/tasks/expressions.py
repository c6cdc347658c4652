"""Arithmetic modulo m on random expressions, in prefix notation or in brackets.

    mano         `op left right`, sized by operations: Allen-Zhu 2025, "Physics of Language Models: Part
                 4.1" (arXiv 2512.17351), and its code, facebookresearch/PhysicsLM4; m = 23, and + - *
    brackets     `(left op right)`, sized by tokens: Deletang et al. 2023, "Neural networks and the Chomsky
                 hierarchy" (arXiv 2207.02098), and its code; m = 5, and + -

A mark follows, where the value is asked for.  The split of what is left into two operands is uniform, and so
are numbers and operations.  Expressions in brackets that are too short to split are 3, -3, (3) and (-3).
Not as published: there, mano's rows begin with a token that says how many operations there are, and each sign
has two tokens, either of which may stand.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import log2
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.mixture import Load, OwnVocabulary

NUMBERS, SPLITS, SIGNS = range(3)
PLUS, MINUS, TIMES, OPEN, CLOSE, MARK = range(6)  # after the numbers
Splits = Callable[[int], list[tuple[int, int]]]  # an expression's size -> possible sizes of its operands


class Expressions(OwnVocabulary):
    """The base of tasks that ask for an expression's value.  Args, besides those of a mixture:

    modulus: m; numbers are 0 to m - 1.
    times: whether expressions have products as well.
    """

    kind = "computation"

    def __init__(self, *, modulus: int, times: bool, **mixture: Any):
        at_least("task.modulus", modulus, 3)
        self.modulus, self.signs, self.tokens = modulus, 3 if times else 2, modulus + MARK + 1
        super().__init__(**mixture)

    @abstractmethod
    def _size(self, load: Any) -> int:
        """Return the size of the whole expression."""

    @staticmethod
    @abstractmethod
    def _splits(size: int) -> list[tuple[int, int]]:
        """Return all pairs of sizes of the two operands; none: the value is that of a single number."""

    @abstractmethod
    def _opened(
        self, size: Int[Tensor, "B 1"], number: Tensor, sign: Tensor, split: Tensor
    ) -> tuple[Int[Tensor, "B 1"], Int[Tensor, "B K"], Int[Tensor, "B 1"]]:
        """Return an expression's first token, what is left to write, and how many entries of that count.
        An entry is a token or, below zero, the size of an expression; the last entry is written first."""

    @abstractmethod
    def _value(self, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B 1"]:
        """Return the expressions' values."""

    def chance(self, segment: Segment) -> float:
        """Return the probability of the likeliest value, which is 0 if there are products."""
        load = next(load for loads in self._loads.values() for load in loads if load.slice() == segment.slice)
        return float(values(self._splits, self._size(load), self.modulus, self.signs).max())

    def _rows(self, load: Any, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        time = load.seq_len - 1
        number, split, sign = (bits(stream(*path, key), examples, time) for key in (NUMBERS, SPLITS, SIGNS))
        number, sign = below(number, self.modulus), self.modulus + below(sign, self.signs)
        stack = number.new_zeros(len(examples), time + 5)
        stack[:, 0], height = -self._size(load), torch.ones_like(number[:, :1])
        tokens = []
        for t in range(time):
            height = height - 1
            top = stack.gather(1, height)
            token, rest, count = self._opened(-top, number[:, [t]], sign[:, [t]], split[:, [t]])
            stack.scatter_(1, height + torch.arange(rest.shape[1], device=rest.device), rest)
            tokens.append(token.where(top < 0, top))
            height = height + count.where(top < 0, 0)
        whole = torch.cat(tokens, dim=1)
        mark = torch.full_like(height, self.modulus + MARK)
        return Batch(torch.cat([whole, mark], 1), torch.full_like(mark, time), self._value(whole))

    def _applied(self, sign: int, left: int, right: int) -> int:
        return (left + right, left - right, left * right)[sign - self.modulus] % self.modulus


@cache
def values(splits: Splits, size: int, modulus: int, signs: int) -> Float[Tensor, " m"]:
    """Return the probabilities of the values of an expression of this size."""
    pairs = splits(size)
    if not pairs:
        return torch.full((modulus,), 1 / modulus, dtype=torch.float64)
    law, number = torch.zeros(modulus, dtype=torch.float64), torch.arange(modulus)
    left, right = number[:, None], number
    for sizes in pairs:
        one, other = (values(splits, size, modulus, signs) for size in sizes)
        for value in (left + right, left - right, left * right)[:signs]:
            law.index_add_(0, (value % modulus).flatten(), torch.outer(one, other).flatten())
    return law / law.sum()


@dataclass(frozen=True, kw_only=True)
class Prefixed(Load):
    """A segment of expressions with num_operations operations."""

    seq_len: int = 0  # follows: 2 * num_operations + 2
    num_operations: int


class Mano(Expressions):
    """Expressions in prefix notation; n operations make a size of n + 1, the count of the numbers."""

    load_kind, load = Prefixed, "num_operations"

    def _fits(self, where: str, load: Prefixed) -> None:
        at_least(f"{where}.num_operations", load.num_operations, 1)

    def _length(self, load: Prefixed) -> int:
        return 2 * load.num_operations + 2

    def _size(self, load: Prefixed) -> int:
        return load.num_operations + 1

    @staticmethod
    def _splits(size: int) -> list[tuple[int, int]]:
        return [(left, size - left) for left in range(1, size)]

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold a number to add and all later operations, without operands yet: `+ 7 * - + ..`.

        Some operands tell any two states apart: 0, or 1 if both multiply, makes all but one operation idle.
        """
        return log2(self.modulus) + (segment.count("num_operations") - 1) * log2(self.signs)

    def _next(self, past: list[int]) -> int:
        numbers: list[int] = []
        for token in past[-2::-1]:
            right = token if token < self.modulus else self._applied(token, numbers.pop(), numbers.pop())
            numbers.append(right)
        return numbers.pop()

    def _opened(
        self, size: Int[Tensor, "B 1"], number: Tensor, sign: Tensor, split: Tensor
    ) -> tuple[Int[Tensor, "B 1"], Int[Tensor, "B K"], Int[Tensor, "B 1"]]:
        left = 1 + below(split, (size - 1).clamp(min=1))
        return number.where(size == 1, sign), torch.cat([left - size, -left], 1), 2 * (size > 1)

    def _value(self, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B 1"]:
        """Return the values by reading from the right, with a stack of values."""
        stack = tokens.new_zeros(len(tokens), tokens.shape[1] + 2)
        height = tokens.new_full((len(tokens), 1), 2)  # two zeros below, where a number's step also looks
        for token in tokens.flip(1).split(1, dim=1):
            left, right = (stack.gather(1, height - back) for back in (1, 2))
            signs = [token == self.modulus + sign for sign in (PLUS, MINUS, TIMES)]
            value = (left + right).where(signs[0], token)
            value = (left * right).where(signs[2], (left - right).where(signs[1], value)) % self.modulus
            height = height - 2 * (token >= self.modulus) + 1
            stack.scatter_(1, height - 1, value)
        return stack.gather(1, height - 1)


class Brackets(Expressions):
    """Expressions in brackets.  A segment's seq_len counts expression and mark; a size counts tokens."""

    def _fits(self, where: str, load: Load) -> None:
        at_least(f"{where}.seq_len", load.seq_len, 2)

    def _size(self, load: Load) -> int:
        return load.seq_len - 1

    @staticmethod
    def _splits(size: int) -> list[tuple[int, int]]:
        return [(left, size - 3 - left) for left in range(1, size - 3)]

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the sum so far and each sign of `(3-((4+(..`: a sign applies to a whole bracket.

        Eight tokens open and close two such levels, and five the last one, whose operand comes later.
        """
        return log2(self.modulus) + (segment.seq_len + 2) // 8

    def _next(self, past: list[int]) -> int:
        value, rest = self._read(past[:-1])
        if rest:
            raise ValueError("more than an expression")
        return value % self.modulus

    def _read(self, tokens: list[int]) -> tuple[int, list[int]]:
        first, *rest = tokens
        if first < self.modulus:
            return first, rest
        value, rest = self._read(rest)
        if first == self.modulus + MINUS:
            return -value, rest
        if rest[0] != self.modulus + CLOSE:
            sign, (other, rest) = rest[0], self._read(rest[1:])
            value = self._applied(sign, value, other)
        return value, rest[1:]

    def _opened(
        self, size: Int[Tensor, "B 1"], number: Tensor, sign: Tensor, split: Tensor
    ) -> tuple[Int[Tensor, "B 1"], Int[Tensor, "B K"], Int[Tensor, "B 1"]]:
        m, splits = self.modulus, size >= 5
        left = 1 + below(split, (size - 4).clamp(min=1))
        close, one = torch.full_like(size, m + CLOSE), torch.full_like(size, -1)
        inner = (left + 3 - size).where(splits, 2 - size).where(size > 2, one)  # 3, 4: all but the brackets
        token = torch.full_like(size, m + OPEN).masked_fill(size == 2, m + MINUS).where(size > 1, number)
        rest = torch.cat([close.where(size > 2, one), inner, sign, -left], dim=1)
        return token, rest, 4 * splits + 2 * ((size > 2) & ~splits) + (size == 2)

    def _value(self, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B 1"]:
        """Return the values with a stack of open brackets: an operand x makes its bracket's value a x + b."""
        m, stack = self.modulus, tokens.new_zeros(2, len(tokens), tokens.shape[1])
        a, b = (torch.full_like(tokens[:, :1], number) for number in (1, 0))
        value, depth, begins = b, b, b == 0
        for token in tokens.split(1, dim=1):
            number, opens, closes = token < m, token == m + OPEN, token == m + CLOSE
            stack.scatter_(2, depth.expand(2, -1, -1), torch.stack([a, b]))
            depth = depth - closes.long()
            a, b = stack.gather(2, depth.expand(2, -1, -1))
            operand, sign = number | closes, ~(number | closes | opens)
            value = ((a * token.where(number, value) + b) % m).where(operand, value)
            negated, times = sign & begins, sign & (token == m + TIMES)
            after = sign & ~begins
            a = a.where(~negated, -a).where(~after, 1 - 2 * (token == m + MINUS).long())
            a, b = a.where(~times, value), b.where(~after, value).where(~times, 0)
            a, b = a.where(~opens, 1), b.where(~opens, 0)
            depth, begins = depth + opens.long(), ~operand
        return value % m
