"""Induction heads: ask what followed the special token at its one earlier place in the row.

Gu & Dao 2023, "Mamba", section 4.1.2, after Olsson et al. 2022: random tokens, among them one special token
followed by some x, and the special token again at the end; the answer is x.  With 20 tokens and 31 places
this is the task of Fu et al. 2022, "Hungry Hungry Hippos" (induction_safari).
"""

from math import log2
from types import MappingProxyType

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.groups import Distance
from zoo.tasks.mixture import Load, Mixture

TOKENS, PLACE = range(2)


class Induction(Mixture):
    """The task of induction heads; the last of vocab_size tokens is the special one."""

    groups = MappingProxyType({"distance": Distance()})

    def _fits(self, where: str, load: Load) -> None:
        at_least("task.vocab_size", self.vocab_size, 3)
        at_least(f"{where}.seq_len", load.seq_len, 3)

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same token other than the special one."""
        return 1 / (self.vocab_size - 1)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold what followed, or, in rows with room, that the next token is the one to keep."""
        return log2(self.vocab_size - (segment.seq_len == 3))

    def _next(self, past: list[int]) -> int:
        return past[past.index(self.vocab_size - 1) + 1]

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        time, special = load.seq_len, self.vocab_size - 1
        inputs = below(bits(stream(*path, TOKENS), examples, time), special)
        place = below(bits(stream(*path, PLACE), examples, 1), time - 2)
        answers = inputs.gather(1, place + 1)
        inputs.scatter_(1, place, special)[:, -1] = special
        positions = torch.full_like(place, time - 1)
        return Batch(inputs, positions, answers, {"distance": positions - place})
