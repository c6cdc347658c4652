"""Depo: follow a number of hops along a cycle that is shown as shuffled edges.

Allen-Zhu 2025, "Physics of Language Models: Part 4.1" (arXiv 2512.17351), and its code,
facebookresearch/PhysicsLM4: n names form a cycle, shown as pairs of a name and the next one, in any order;
then come questions `hops name mark answer` on different names, asked at the mark, with 1 to `hops` hops each.
Not as published: a name is one token (there 1 or 2 of 50, or 5 to 7 of 3); a segment has one n (there 3 to N,
n weighted by 1 / (n + sqrt N)); tests have all numbers of hops, told apart by `hops` (there powers of two).
"""

from dataclasses import dataclass
from itertools import takewhile
from math import lgamma, log
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.groups import Number
from zoo.tasks.mixture import Load, OwnVocabulary
from zoo.tasks.sampling import distinct, permutation

NAMES, EDGES, STARTS, HOPS = range(4)


@dataclass(frozen=True, kw_only=True)
class Cycles(Load):
    """A segment of rows with a cycle of num_nodes names and num_queries questions."""

    seq_len: int = 0  # follows: 2 * num_nodes + 4 * num_queries
    num_nodes: int
    num_queries: int


class Depo(OwnVocabulary):
    """A task that asks which name comes some hops later in a cycle.  Args, besides those of a mixture:

    names: how many names there are.
    hops: the largest number of hops asked for.  Tokens: the names, 1 to `hops`, the mark.
    """

    kind, load_kind, load = "computation", Cycles, "num_nodes"

    def __init__(self, *, names: int, hops: int, **mixture: Any):
        at_least("task.hops", hops, 1)
        self.names, self.hops, self.tokens = names, hops, names + hops + 1
        super().__init__(**mixture)
        self.groups = {"hops": Number(hops + 1)}

    def _fits(self, where: str, load: Cycles) -> None:
        at_least(f"{where}.num_nodes", load.num_nodes, 2)
        at_least("task.names", self.names, load.num_nodes)
        at_least(f"{where}.num_queries", load.num_queries, 1)
        at_least(f"{where}.num_nodes", load.num_nodes, load.num_queries)

    def _length(self, load: Cycles) -> int:
        return 2 * load.num_nodes + 4 * load.num_queries

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same name."""
        return 1 / self.names

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold which cycle the names form (the choice of names is not counted), or an answer."""
        return max(lgamma(segment.count("num_nodes")), log(self.names)) / log(2)

    def _next(self, past: list[int]) -> int:
        edges = list(takewhile(lambda token: token < self.names, past))
        after = dict(zip(edges[::2], edges[1::2], strict=True))
        name = past[-2]
        for _ in range(past[-3] - self.names + 1):
            name = after[name]
        return name

    def _rows(self, load: Cycles, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, queries = load.num_nodes, load.num_queries
        name = distinct(stream(*path, NAMES), examples, n, self.names)
        order = permutation(stream(*path, EDGES), examples, n)
        edges = torch.stack([name.gather(1, order), name.gather(1, (order + 1) % n)], 2).flatten(1)
        start = permutation(stream(*path, STARTS), examples, n)[:, :queries]
        hops = below(bits(stream(*path, HOPS), examples, queries), self.hops) + 1
        answers = name.gather(1, (start + hops) % n)
        mark = torch.full_like(hops, self.tokens - 1)
        questions = torch.stack([self.names + hops - 1, name.gather(1, start), mark, answers], 2).flatten(1)
        places = 2 * n + 2 + 4 * torch.arange(queries, device=examples.device).expand_as(hops)
        return Batch(torch.cat([edges, questions], dim=1), places, answers, {"hops": hops})
