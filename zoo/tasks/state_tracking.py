"""State tracking: word problems of groups, which include the running sum modulo m and the running parity.

Merrill, Petty & Sabharwal 2024, "The illusion of state in state-space models": a row is elements g_1 .. g_T
of a group, uniform; at every t the product g_1 g_2 ... g_t is asked.  S5 and A5 are as hard as any regular
language; Z_m is counting modulo m (Grazzi et al. 2024: m = 2 needs negative eigenvalues of a linear
recurrence, m = 3 complex ones or more than one reflection).  The tokens up to an answer are a shorter row:
training on T tokens trains on all lengths up to T.
"""

import re
from functools import lru_cache, reduce
from itertools import permutations
from math import log2
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.circuits import TOKENS_READ, tokens_read
from zoo.tasks.mixture import Load, OwnVocabulary

LARGEST = 720  # elements of the largest group, S6


@lru_cache
def table(name: str) -> Int[Tensor, "G G"]:
    """Return a group's table: entry [a, b] is a b, and element 0 is neutral; name: "S5", "A5", "Z60", ...

    For permutations, a b means first a, then b; they are numbered in lexicographic order of their images.
    ValueError: this module has no such group.
    """
    match = re.fullmatch(r"([SAZ])([1-9]\d{0,2})", name)
    kind, degree = (match[1], int(match[2])) if match else ("", 0)
    if not 2 <= degree <= {"S": 6, "A": 6, "Z": LARGEST}.get(kind, 0) or name == "A2":
        raise ValueError(f"task.group (={name!r}) must be one of S2 to S6, A3 to A6 and Z2 to Z{LARGEST}.")
    if kind == "Z":
        numbers = torch.arange(degree)
        return (numbers[:, None] + numbers) % degree
    elements = [p for p in permutations(range(degree)) if kind == "S" or even(p)]
    index = {p: i for i, p in enumerate(elements)}
    return torch.tensor([[index[tuple(b[i] for i in a)] for b in elements] for a in elements])


def even(permutation: tuple[int, ...]) -> bool:
    """Return whether the permutation has an even number of pairs in the wrong order."""
    return sum(x > y for i, x in enumerate(permutation) for y in permutation[i + 1 :]) % 2 == 0


ELEMENTS = 0


class WordProblem(OwnVocabulary):
    """The word problem of a group.  Args, besides those of a mixture:

    group: S2 to S6, A3 to A6, or Z2 to Z720; a token is one of the group's elements, 0 the neutral one.
    """

    kind = "computation"
    groups = MappingProxyType({"tokens": TOKENS_READ})

    def __init__(self, *, group: str, **mixture: Any):
        self.table = table(group)
        self.products = self.table.tolist()
        self.tokens = len(self.table)
        super().__init__(**mixture)

    def chance(self, segment: Segment) -> float:
        """Return 1 / size of the group: every product is uniform over the group."""
        return 1 / self.vocab_size

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the product so far; a row of one token only asks for that token."""
        return log2(self.vocab_size) if segment.seq_len > 1 else 0.0

    def _next(self, past: list[int]) -> int:
        return reduce(lambda a, b: self.products[a][b], past)

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        inputs = below(bits(stream(*path, ELEMENTS), examples, load.seq_len), self.vocab_size)
        products, width = self.table.to(examples.device), 1
        answers = inputs.clone()
        while width < load.seq_len:  # answers are products of up to `width` elements
            answers[:, width:] = products[answers[:, :-width], answers[:, width:]]
            width *= 2
        positions = torch.arange(load.seq_len, device=examples.device).expand_as(inputs)
        return Batch(inputs, positions, answers, {"tokens": tokens_read(positions)})
