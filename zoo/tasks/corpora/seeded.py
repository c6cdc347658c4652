"""Make text whose entropy is known: a Markov chain over letters, with some passages repeated.

After letter s comes its own successor with probability `follow`, else a letter by Zipf's law; so the best
guess without memory and the entropy rate follow from the transition matrix.  Some passages of `repeat_len`
letters copy what stood `distance` letters before, as in text that quotes itself: on these passages a model
with memory does better than the chain allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream, uniform
from zoo.tasks.corpora.base import Corpus

FIRST = ord("A")  # the letters are bytes from here on
CHAIN, REPEATS, SUCCESSORS = range(3)


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """Settings of the language.  letters: how many there are.  follow: the probability of the successor.

    documents: how many there are, of `length` letters each.
    repeat_every: letters from the start of one repeated passage to the start of the next; 0: no repeats.
    """

    seed: int
    letters: int
    follow: float
    documents: int
    length: int
    repeat_len: int
    repeat_every: int
    distances: Sequence[int]

    def __post_init__(self) -> None:
        at_least("letters", self.letters, 2)
        at_least("documents", self.documents, 3)
        if self.letters > 256 - FIRST:
            raise ValueError(f"letters (={self.letters}) must be at most {256 - FIRST}.")
        if not 0 <= self.follow < 1:
            raise ValueError(f"follow (={self.follow}) must be at least 0 and below 1.")
        if self.repeat_every and self.repeat_len > min(self.distances, default=0):
            raise ValueError(f"repeat_len (={self.repeat_len}) must be at most the smallest of distances.")
        if self.repeat_every and self.repeat_every < self.repeat_len:
            raise ValueError(f"repeat_every (={self.repeat_every}) must be at least repeat_len.")

    @cached_property
    def transitions(self) -> Float[Tensor, "K K"]:
        """Return the matrix whose entry [s, t] is the probability of t after s."""
        ranks = torch.arange(1, self.letters + 1, dtype=torch.float64)
        zipf = (1 / ranks) / (1 / ranks).sum()
        draws = bits(stream(self.seed, SUCCESSORS), torch.arange(1), self.letters)[0]
        successors = torch.zeros(self.letters, self.letters, dtype=torch.float64)
        successors[torch.arange(self.letters), draws.argsort(stable=True)] = 1
        return self.follow * successors + (1 - self.follow) * zipf

    @property
    def entropy(self) -> float:
        """Return the entropy rate of the chain in nats a letter, without the repeats."""
        rows = -torch.special.xlogy(self.transitions, self.transitions).sum(1)
        return float(self._usual @ rows)

    @cached_property
    def _usual(self) -> Float[Tensor, " K"]:
        """Return the frequency of each letter in the long run."""
        return torch.linalg.matrix_power(self.transitions, 1024)[0]

    def corpus(self) -> Corpus:
        """Write the documents as bytes."""
        rows = (self._repeated(self._chain()) + FIRST).to(torch.uint8).numpy()
        return Corpus("seeded", [row.tobytes() for row in rows], {})

    def _chain(self) -> Int[Tensor, "N L"]:
        """Draw the chain in numpy: it takes a small step a letter, and torch with threads took a minute."""
        draws = uniform(bits(stream(self.seed, CHAIN), torch.arange(self.documents), self.length)).numpy()
        below_ = self.transitions.cumsum(1).clamp(max=1).numpy()
        below_[:, -1] = 1
        letters = np.empty((self.documents, self.length), dtype=np.int64)
        last = (draws[:, 0] * self.letters).astype(np.int64)
        for t in range(self.length):
            last = (below_[last] < draws[:, t, None]).sum(1)
            letters[:, t] = last
        return torch.from_numpy(letters)

    def _repeated(self, letters: Int[Tensor, "N L"]) -> Int[Tensor, "N L"]:
        """Write the repeated passages from left to right, so that a repeat may copy an earlier repeat."""
        if not self.repeat_every:
            return letters
        farthest, span = max(self.distances), torch.arange(self.repeat_len)
        places = range(farthest, self.length - self.repeat_len + 1, self.repeat_every)
        key = stream(self.seed, REPEATS)
        which = below(bits(key, torch.arange(self.documents), max(len(places), 1)), len(self.distances))
        for i, place in enumerate(places):
            sources = place - torch.tensor(list(self.distances))[which[:, i]]
            letters[:, place : place + self.repeat_len] = letters.gather(1, sources[:, None] + span)
        return letters
