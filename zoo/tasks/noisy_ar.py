"""MQAR with noise: some pairs are two tokens of a separate vocabulary, bound to nothing and never asked.

A row is one of MQAR with one pass over n places for pairs; then each place, with probability `noise`, holds
two tokens drawn uniformly from the last `noise_tokens` of the vocabulary instead.  One place, uniform, always
keeps its pair, so that every row asks something.  Filler replaces the question of a pair that became noise.
Keys come from 1..W/2-1 and values from W/2..W-1, with W = V - noise_tokens.

After the noisy recall of MAD (Poli et al. 2024, arXiv 2403.17844), on the rows of MQAR.
"""

from math import log2
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream, uniform
from zoo.tasks.base import IGNORED, Batch, Segment
from zoo.tasks.context import DEPTH, AskedLater, Pairs, asked_behind, check_room, fill, tenth
from zoo.tasks.groups import Distance
from zoo.tasks.sampling import distinct, power_law_places

KEYS, VALUES, NOISY, SPARED, NOISE, GAPS, FILLER = range(7)


class NoisyMQAR(AskedLater):
    """MQAR with noise.  Args, besides those of AskedLater:

    vocab_size: V, noise included.
    noise: the probability that a pair is replaced; MAD uses .2, .4, .6 and .8.
    noise_tokens: how many noise tokens there are; 16 in MAD.
    """

    load_kind, load = Pairs, "num_kv_pairs"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH})

    def __init__(self, *, noise: float, noise_tokens: int, **settings: Any):
        at_least("task.noise_tokens", noise_tokens, 1)
        if not 0 <= noise <= 1:
            raise ValueError(f"task.noise (={noise}) must be between 0 and 1: it is a probability.")
        self.noise, self.noise_tokens = noise, noise_tokens
        super().__init__(**settings)

    @property
    def _words(self) -> int:
        """Return the number of tokens that are no noise."""
        return self.vocab_size - self.noise_tokens

    @property
    def num_values(self) -> int:
        return self._words - self._words // 2

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold as much as in MQAR if a row may have no noise, and else one value."""
        return super().least_bits(segment) if self.noise < 1 else log2(self.num_values)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the token after the key among the pairs; there are as many places as questions."""
        keys, values = inputs[:, : 2 * positions.shape[1]].unflatten(1, (-1, 2)).unbind(2)
        queries = inputs.gather(1, positions)
        return values.gather(1, (keys[:, None] == queries[..., None]).int().argmax(-1))

    def _rows(self, load: Pairs, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, words, half = load.num_kv_pairs, self._words, self._words // 2
        keys = distinct(stream(*path, KEYS), examples, n, half - 1) + 1
        values = distinct(stream(*path, VALUES), examples, n, words - half) + half
        clean = uniform(bits(stream(*path, NOISY), examples, n)) >= self.noise
        clean.scatter_(1, below(bits(stream(*path, SPARED), examples, 1), n), True)

        pairs = torch.stack([keys, values], -1)
        noise = words + below(bits(stream(*path, NOISE), examples, 2 * n), self.noise_tokens)
        context = pairs.where(clean[..., None], noise.view_as(pairs)).flatten(1)
        size = load.seq_len - 2 * n
        gaps = power_law_places(stream(*path, GAPS), examples, n, size // 2, self.power_a)
        filling = fill(self.filler, stream(*path, FILLER), examples, size, pairs.flatten(1), words)
        questions = keys.where(clean, filling.gather(1, 2 * gaps))
        inputs, positions = asked_behind(context, filling, questions[..., None], gaps)

        pair = torch.arange(n, device=examples.device)
        groups = MappingProxyType(
            {"distance": positions - 2 * pair, "depth": tenth(pair, n).expand_as(positions)}
        )
        return Batch(inputs, positions, values.where(clean, IGNORED), groups)

    def _fits(self, where: str, load: Pairs) -> None:
        n, keys = load.num_kv_pairs, self._words // 2 - 1
        check_room(where, load, each=4)
        if keys < n:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) less {self.noise_tokens} for noise has {max(keys, 0)} "
                f"keys, too few for {where}.num_kv_pairs (={n}); "
                f"use at least {2 * n + 2 + self.noise_tokens}."
            )
