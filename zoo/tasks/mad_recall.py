"""MAD's recall tasks: in context, among noise, and fuzzy (Poli et al. 2024, "Mechanistic design and scaling
of hybrid architectures", as athms/mad-lab makes its rows).

A row is pairs of key and value; keys are drawn with replacement, and each key of a row has one value.  The
value is asked where a key comes again, and at the last pair, whose key is one of those before.  The answers
thus stand in the row, after the places that ask: this is no task for a mixer that sees the future.

Deliberate differences: a row's seq_len tokens include the last value, which is never read; a fuzzy row asks
at its end for one of its pairs, each as likely (in mad-lab a chosen pair goes to a random place, or sometimes
nowhere); one pair of a noisy row is never noise (in mad-lab all may be, once in seq_len / 2 rows).
Training in mad-lab asks for every next token, test for these answers alone.
"""

from dataclasses import dataclass
from math import log2, perm
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream, uniform
from zoo.tasks.base import IGNORED, Batch, Device, Examples, Segment, Split
from zoo.tasks.groups import Distance, Number
from zoo.tasks.mixture import Load, Mixture
from zoo.tasks.sampling import first_seen, last_seen

KEYS, VALUES, PROBE, IS_NOISE, NOISE, SPARED, KEY_SIZES, VALUE_SIZES = range(8)
LONGEST = 3  # tokens of a fuzzy key or value
LARGEST = 325  # the largest vocabulary from which `below` can draw three values at once


class ByAnswer(Mixture):
    """A mixture with one more group, `answer`, so that a record counts the right answers of each token.

    MAD's accuracy is the mean over the different tokens that are asked for; ours is the mean over answers.
    """

    def __init__(self, **mixture: Any) -> None:
        super().__init__(**mixture)
        self.groups = {**type(self).groups, "answer": Number(self.vocab_size)}

    def sample(self, split: Split, segment: int, examples: Examples, device: Device = "cpu") -> Batch:
        batch = super().sample(split, segment, examples, device)
        return batch._replace(groups={**batch.groups, "answer": batch.answers.clamp(min=0)})


@dataclass(frozen=True, kw_only=True)
class Mixed(Load):
    """A segment of which noise_percent of the pairs are noise."""

    noise_percent: int


class InContextRecall(ByAnswer):
    """Recall in context.  The last noise_tokens of vocab_size tokens are noise; of the others the first half
    are keys and the second half values."""

    load_kind = Mixed
    groups = MappingProxyType({"distance": Distance()})

    def __init__(self, *, noise_tokens: int, vocab_size: int, **mixture: Any):
        at_least("task.noise_tokens", noise_tokens, 0)
        at_least("task.vocab_size", vocab_size, noise_tokens + 4)
        self.noise_tokens, self.first_noise = noise_tokens, vocab_size - noise_tokens
        self.num_keys = self.first_noise // 2
        super().__init__(vocab_size=vocab_size, **mixture)

    def _fits(self, where: str, load: Mixed) -> None:
        at_least(f"{where}.seq_len", load.seq_len, 4)
        if load.seq_len % 2:
            raise ValueError(f"{where}.seq_len (={load.seq_len}) must be even; use {load.seq_len + 1}.")
        if not 0 <= load.noise_percent <= 100:
            raise ValueError(f"{where}.noise_percent (={load.noise_percent}) must be between 0 and 100.")
        if load.noise_percent and not self.noise_tokens:
            raise ValueError(
                f"{where}.noise_percent (={load.noise_percent}) needs task.noise_tokens: try 16."
            )

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same value."""
        return 1 / (self.first_noise - self.num_keys)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the value of each key, in a row with as many keys as length and noise allow."""
        room = segment.seq_len // 2 - 1 if segment.count("noise_percent") < 100 else 1
        return min(room, self.num_keys) * log2(self.first_noise - self.num_keys)

    def _next(self, past: list[int]) -> int:
        """Return the token after the latest earlier place of the last token; 0 if there is none."""
        earlier = past[-2::-1]
        return past[len(past) - 1 - earlier.index(past[-1])] if past[-1] in earlier else 0

    def _rows(self, load: Mixed, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, k = load.seq_len // 2, self.num_keys
        keys = below(bits(stream(*path, KEYS), examples, n), k)
        values = below(bits(stream(*path, VALUES), examples, k), self.first_noise - k) + k  # one value a key
        noise = below(bits(stream(*path, IS_NOISE), examples, n), 100) < load.noise_percent
        noise.scatter_(1, below(bits(stream(*path, SPARED), examples, 1), n - 1), False)[:, -1] = False

        shown = torch.zeros_like(values, dtype=torch.bool)
        shown = torch.nn.functional.pad(shown, (0, 1)).scatter_(1, keys.masked_fill(noise, k)[:, :-1], True)
        lots = bits(stream(*path, PROBE), examples, k).masked_fill(
            ~shown[:, :-1], torch.iinfo(torch.int64).min
        )
        keys[:, -1] = lots.argmax(1)

        pair = torch.arange(n, device=examples.device)
        before = last_seen(torch.where(noise, -1 - pair, keys))
        answers = values.gather(1, keys)
        inputs = torch.stack([keys, answers], 2).flatten(1)
        if self.noise_tokens:
            drawn = below(bits(stream(*path, NOISE), examples, 2 * n), self.noise_tokens) + self.first_noise
            inputs = torch.where(noise.repeat_interleave(2, 1), drawn, inputs)
        distance = (2 * (pair - before)).where(before >= 0, 1)
        answers = answers.where(before >= 0, IGNORED)
        return Batch(inputs, (2 * pair).expand_as(answers), answers, {"distance": distance})


@dataclass(frozen=True, kw_only=True)
class Fuzzy(Load):
    """A segment whose keys have `shortest_key` to 3 tokens."""

    shortest_key: int


class FuzzyRecall(ByAnswer):
    """Fuzzy recall: keys and values of up to three different tokens each; training has short keys as well.

    vocab_size: the last token pads a row in front; of the others the first half are keys, the second values.
    """

    load_kind = Fuzzy
    groups = MappingProxyType({"distance": Distance()})

    def _fits(self, where: str, load: Fuzzy) -> None:
        if not 2 * LONGEST + 1 <= self.vocab_size <= LARGEST:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) must be between {2 * LONGEST + 1} and {LARGEST}."
            )
        at_least(f"{where}.seq_len", load.seq_len, 4 * LONGEST)
        if not 1 <= load.shortest_key <= LONGEST:
            raise ValueError(f"{where}.shortest_key (={load.shortest_key}) must be between 1 and {LONGEST}.")

    @property
    def num_keys(self) -> int:
        return (self.vocab_size - 1) // 2

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same token of those that values are made of."""
        return 1 / (self.vocab_size - 1 - self.num_keys)

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold each key's value, in a row of different keys, all keys and values of 3 tokens."""
        keys, tokens = self.num_keys, self.vocab_size - 1 - self.num_keys
        shown = min(segment.seq_len // (2 * LONGEST) - 1, perm(keys, LONGEST))
        return shown * log2(perm(tokens, LONGEST))

    def _next(self, past: list[int]) -> int:
        """Return the token after an earlier place of this key and of its value as far as written, or 0."""
        start = len(past)
        while start and past[start - 1] >= self.num_keys:
            start -= 1
        while start and past[start - 1] < self.num_keys:
            start -= 1
        question = past[start:]
        for at in range(start - len(question) - 1, -1, -1):
            alone = at == 0 or past[at - 1] >= self.num_keys
            if (
                alone
                and past[at : at + len(question)] == question
                and past[at + len(question)] >= self.num_keys
            ):
                return past[at + len(question)]
        return 0

    def _rows(self, load: Fuzzy, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        time, k = load.seq_len, self.num_keys
        most = time // (load.shortest_key + 1) + 1
        sizes = below(bits(stream(*path, KEY_SIZES), examples, most), LONGEST + 1 - load.shortest_key)
        keys = Motifs(sizes + load.shortest_key, _different(stream(*path, KEYS), examples, most, k))
        sizes = below(bits(stream(*path, VALUE_SIZES), examples, most), LONGEST) + 1
        pool = self.vocab_size - 1 - k
        values = Motifs(sizes, _different(stream(*path, VALUES), examples, most, pool) + k)
        values = values.at(first_seen(keys.codes(k)))  # a key that comes again has the value it had

        room = time - 2 * LONGEST  # the last pair has to fit
        fit = ((keys.sizes + values.sizes).cumsum(1) <= room).sum(1, keepdim=True)
        lot = uniform(bits(stream(*path, PROBE), examples, 1))
        probe = (lot * fit).long().minimum(fit - 1)
        keys, values = (part.put(fit, part.at(probe)) for part in (keys, values))
        return self._laid_out(keys, values, fit, time)

    def _laid_out(self, keys: "Motifs", values: "Motifs", last: Tensor, time: int) -> Batch:
        """Return the batch whose rows of `time` tokens end on the pairs up to `last`, with padding before."""
        ends = (keys.sizes + values.sizes).cumsum(1)
        starts = ends - keys.sizes - values.sizes
        t = torch.arange(time, device=ends.device) - time + ends.gather(1, last)  # padding is before 0
        pair = torch.searchsorted(ends, t, right=True)
        key_size, inside = keys.sizes.gather(1, pair), t - starts.gather(1, pair)
        of_value = inside >= key_size
        slot = LONGEST * pair + torch.where(of_value, inside - key_size, inside).clamp(min=0)
        inputs = torch.where(of_value, *(part.tokens.flatten(1).gather(1, slot) for part in (values, keys)))
        inputs.masked_fill_(t < 0, self.vocab_size - 1)

        before = last_seen(keys.codes(self.num_keys)).gather(1, pair)
        apart = (starts.gather(1, pair) - starts.gather(1, before.clamp(min=0))).clamp(min=1)
        scored = (of_value & (before >= 0) & (t >= 0))[:, 1:]  # asked at the token before each
        positions = torch.arange(time - 1, device=t.device).expand_as(scored)
        return Batch(inputs, positions, inputs[:, 1:].where(scored, IGNORED), {"distance": apart[:, 1:]})


@dataclass(frozen=True)
class Motifs:
    """Keys or values [B, N]: each is the first `sizes` [B, N] of its three `tokens` [B, N, 3]."""

    sizes: Tensor
    tokens: Tensor

    def at(self, places: Int[Tensor, "B M"]) -> "Motifs":
        """Return the motifs at these places of each row."""
        return Motifs(self.sizes.gather(1, places), self.tokens.take_along_dim(places[..., None], 1))

    def put(self, place: Int[Tensor, "B 1"], one: "Motifs") -> "Motifs":
        """Return the motifs with `one` in place of the motif at this place of each row."""
        index = place[..., None].expand_as(one.tokens)
        return Motifs(self.sizes.scatter(1, place, one.sizes), self.tokens.scatter(1, index, one.tokens))

    def codes(self, pool: int) -> Int[Tensor, "B N"]:
        """Return a number for each motif, equal if the tokens are equal; tokens must be below `pool`."""
        there = torch.arange(LONGEST, device=self.sizes.device) < self.sizes[..., None]
        weights = torch.tensor([(pool + 1) ** i for i in range(LONGEST)], device=self.sizes.device)
        return ((self.tokens + 1) * there * weights).sum(2)


def _different(key: int, examples: Int[Tensor, " B"], count: int, pool: int) -> Int[Tensor, "B N 3"]:
    """Return `count` ordered triples of 0..pool-1, each uniform without replacement and from one draw."""
    draws = below(bits(key, examples, count), pool * (pool - 1) * (pool - 2))
    rest = draws.div(pool, rounding_mode="floor")
    a, c = draws - pool * rest, rest.div(pool - 1, rounding_mode="floor")
    b = rest - (pool - 1) * c
    b += b >= a
    c += c >= torch.minimum(a, b)
    c += c >= torch.maximum(a, b)
    return torch.stack([a, b, c], 2)
