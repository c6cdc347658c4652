"""Set disjointness: a row shows two sets that share one element and asks for this element.

Arora et al. 2024, "Just read twice" (arXiv 2407.05483), section 3 and HazyResearch/prefix-linear-attention,
synthetic/zoology/data/non_autoreg.py.  A row is

    1 a_0 ... a_{n-1} 2 b_0 ... b_{m-1}   (P times, the same)   then 3, where the common element is asked for

with all elements drawn without replacement from 4..V-1, and then one b, uniform, set to one a, uniform.
(There the sets come from the two halves of a shuffled vocabulary; elements drawn without replacement have
that very law.)  A reader with a fixed memory has to keep the first set: n is the load, and the order of a
small and a large set matters, unless it may read twice (P = 2).
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
from zoo.tasks.base import Batch, Segment
from zoo.tasks.context import DEPTH, bits_of_subset, tenth
from zoo.tasks.groups import Distance
from zoo.tasks.mixture import Load, Mixture
from zoo.tasks.sampling import distinct

ELEMENTS, OF_FIRST, OF_SECOND = range(3)
FIRST, SECOND, ASK, MARKS = 1, 2, 3, 4  # tokens; those from MARKS on are elements


@dataclass(frozen=True, kw_only=True)
class Sets(Load):
    """A segment whose rows show two sets of these sizes."""

    seq_len: int = 0  # follows: num_passes * (first_set + second_set + 2) + 1
    first_set: int
    second_set: int


class SetDisjoint(Mixture):
    """The task of set disjointness.  Args, besides those of Mixture:

    num_passes: P, how often both sets are shown.

    An answer's distance reaches to the element in the first set's last showing: a model that sees it only in
    the second set cannot know that it is common.  Its depth is its place in the first set.
    """

    load_kind, load = Sets, "first_set"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH})

    def __init__(self, *, num_passes: int, **mixture: Any):
        at_least("task.num_passes", num_passes, 1)
        self.num_passes = num_passes
        super().__init__(**mixture)

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same element."""
        return 1 / (self.vocab_size - MARKS)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the first set, if for any two first sets some second set shares one element with
        each; otherwise, and if both sets are shown again, a state must hold the answer."""
        n, m = segment.count("first_set"), segment.count("second_set")
        elements = self.vocab_size - MARKS
        once = self.num_passes == 1 and m > 1 and elements >= 2 * n + m - 2
        return bits_of_subset(n, elements) if once else log2(elements)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the one element that stands on both sides of the first mark between sets."""
        once = inputs[:, : (inputs.shape[1] - 1) // self.num_passes]
        left = (once == SECOND).cumsum(1) == 0
        same = (once[:, :, None] == once[:, None]) & left[:, :, None] & ~left[:, None]
        return once.gather(1, same.any(2).int().argmax(1, keepdim=True)).expand_as(positions)

    def _rows(self, load: Sets, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, m, rows = load.first_set, load.second_set, len(examples)
        elements = MARKS + distinct(stream(*path, ELEMENTS), examples, n + m, self.vocab_size - MARKS)
        chosen = below(bits(stream(*path, OF_FIRST), examples, 1), n)
        answers = elements.gather(1, chosen)
        elements.scatter_(1, n + below(bits(stream(*path, OF_SECOND), examples, 1), m), answers)

        first, second, ask = (examples.new_tensor([mark]).expand(rows, 1) for mark in (FIRST, SECOND, ASK))
        once = torch.cat([first, elements[:, :n], second, elements[:, n:]], 1)
        inputs = torch.cat([*[once] * self.num_passes, ask], 1)
        last = load.seq_len - 1
        source = (self.num_passes - 1) * once.shape[1] + 1 + chosen
        groups = MappingProxyType({"distance": last - source, "depth": tenth(chosen, n)})
        return Batch(inputs, torch.full_like(answers, last), answers, groups)

    def _length(self, load: Sets) -> int:
        return self.num_passes * (load.first_set + load.second_set + 2) + 1

    def _fits(self, where: str, load: Sets) -> None:
        both = load.first_set + load.second_set
        at_least(f"{where}.first_set", load.first_set, 1)
        at_least(f"{where}.second_set", load.second_set, 1)
        if self.vocab_size - MARKS < both:
            elements = max(0, self.vocab_size - MARKS)
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has {elements} elements, too few "
                f"for {where}'s two sets (={both}); use at least {both + MARKS}."
            )
