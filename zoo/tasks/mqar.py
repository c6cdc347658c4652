"""Multi-query associative recall (MQAR): pairs of key and value, then each key again; say its value.

Arora et al. 2023, "Zoology: Measuring and improving recall in efficient language models", section 4, as the
reference implementation generates it.  A row of n pairs and P passes is

    k_0 v_0 k_1 v_1 ... k_{n-1} v_{n-1}   (P times, the same)   then filler with k_j at C + 2 g_j,   C = 2 n P

with keys uniform without replacement from 1..V/2-1, values from V/2..V-1, and the gaps g_j drawn one after
the other without replacement from 0..S-1, S = (L - C)/2, slot i with weight i**(power_a - 1), i = 1..S.  The
prediction is read off at the query itself; the token after a query is filler, never the answer.

On purpose not as there: `filler: safe` (below); no rule that the vocabulary exceeds the sequence; every
random number comes from a counter, so a row depends on (seed, split, segment, index) alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.checks import at_least, one_of
from zoo.counter_rng import below, bits, stream
from zoo.tasks.base import DATA, ORDERS, SPLITS, Batch, Data, Order, Segment, Split, Task
from zoo.tasks.sampling import distinct, outside, power_law_places

Filler = Literal["safe", "random", "blank"]
KEYS, VALUES, GAPS, FILLER = range(4)
CHUNK = {"cpu": 2**18}  # tokens made at a time, so that the intermediates stay in the cache
CHUNK_ELSEWHERE = 2**25


@dataclass(frozen=True, kw_only=True)
class Load:
    """One segment of a mixture, as the config states it."""

    seq_len: int
    num_kv_pairs: int
    num_examples: int


class MQAR(Task):
    """Args:

    seed: of all the data.
    vocab_size: V; token 0 is neither key nor value.
    power_a: 0.01 in every figure: short gaps preferred, about as 1/i; 1: uniform.
    num_passes: how often the pairs are shown (Arora et al. 2024, "Just read twice").
    filler: what stands where neither pair nor query does.  safe: uniform over the tokens that are no key and
        no value of the row, so no filler token can create or overwrite an answer; random: uniform over
        the vocabulary, keys and values included (the reference's random_non_queries=True; the answer stays
        the one bound in the context); blank: token 0 (random_non_queries=False).
    data, order: of training, see Task.
    train, valid, test: the segments, each with seq_len, num_kv_pairs, num_examples.
    """

    def __init__(
        self,
        *,
        seed: int,
        vocab_size: int,
        power_a: float,
        num_passes: int,
        filler: Filler,
        data: Data,
        order: Order,
        train: Iterable[Load | Mapping[str, int]],
        valid: Iterable[Load | Mapping[str, int]],
        test: Iterable[Load | Mapping[str, int]],
    ):
        at_least("task.num_passes", num_passes, 1)
        one_of("task.filler", filler, get_args(Filler))
        one_of("task.data", data, DATA)
        one_of("task.order", order, ORDERS)
        if not power_a > 0:
            raise ValueError(
                f"task.power_a (={power_a}) must be positive; 0.01 is the paper's, 1 is uniform."
            )
        self.seed, self.vocab_size, self.power_a = seed, vocab_size, power_a
        self.num_passes, self.filler, self.data, self.order = num_passes, filler, data, order
        mixtures = zip(SPLITS, (train, valid, test), strict=True)
        self._loads = {split: [_load(split, entry) for entry in mixture] for split, mixture in mixtures}
        for split in SPLITS:
            self._validate(split)

    @classmethod
    def one_load(
        cls,
        *,
        seed: int,
        vocab_size: int,
        power_a: float,
        num_passes: int,
        filler: Filler,
        data: Data,
        order: Order,
        seq_len: int,
        num_kv_pairs: int,
        train_examples: int,
        valid_examples: int,
        test_examples: int,
    ) -> "MQAR":
        """The task whose splits have one segment each, all of the same shape."""
        train, valid, test = (
            [Load(seq_len=seq_len, num_kv_pairs=num_kv_pairs, num_examples=count)]
            for count in (train_examples, valid_examples, test_examples)
        )
        return cls(
            seed=seed,
            vocab_size=vocab_size,
            power_a=power_a,
            num_passes=num_passes,
            filler=filler,
            data=data,
            order=order,
            train=train,
            valid=valid,
            test=test,
        )

    def segments(self, split: Split) -> list[Segment]:
        return [
            Segment(
                seq_len=load.seq_len,
                num_examples=load.num_examples,
                slice={"seq_len": load.seq_len, "num_kv_pairs": load.num_kv_pairs},
            )
            for load in self._loads[split]
        ]

    def chance(self, segment: Segment) -> float:
        """One of the values, whichever: 1 / (V - V//2).  (With the row's values known it would be 1/n.)"""
        return 1 / (self.vocab_size - self.vocab_size // 2)

    def sample(
        self,
        split: Split,
        segment: int,
        examples: Int[Tensor, " B"] | range,
        device: torch.device | str = "cpu",
    ) -> Batch:
        """Answers and positions are in the order of the pairs: answer j belongs to pair j."""
        if isinstance(examples, range):
            examples = torch.arange(examples.start, examples.stop, examples.step)
        examples = examples.to(device)
        load = self._loads[split][segment]
        path = (self.seed, SPLITS.index(split), segment, load.seq_len, load.num_kv_pairs)
        rows = max(1, CHUNK.get(examples.device.type, CHUNK_ELSEWHERE) // load.seq_len)
        parts = [self._rows(load, path, chunk) for chunk in examples.split(rows)]
        return (
            parts[0]
            if len(parts) == 1
            else Batch(*(torch.cat(column) for column in zip(*parts, strict=True)))
        )

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, half = load.num_kv_pairs, self.vocab_size // 2
        context = 2 * n * self.num_passes
        keys = distinct(stream(*path, KEYS), examples, n, half - 1) + 1
        values = distinct(stream(*path, VALUES), examples, n, self.vocab_size - half) + half
        places = (load.seq_len - context) // 2
        gaps = power_law_places(stream(*path, GAPS), examples, n, places, self.power_a)

        inputs = examples.new_empty(len(examples), load.seq_len)
        pairs = torch.stack([keys, values], -1).flatten(1)
        inputs[:, :context] = pairs.repeat(1, self.num_passes)
        inputs[:, context:] = self._fill(stream(*path, FILLER), examples, load.seq_len - context, pairs)
        positions = gaps.mul_(2).add_(context)
        inputs.scatter_(1, positions, keys)
        latest = torch.arange(context - 2 * n, context, 2, device=examples.device)
        return Batch(inputs, positions, answers=values, sources=latest.expand_as(positions))

    def _fill(self, key: int, examples: Tensor, count: int, pairs: Int[Tensor, "B K"]) -> Tensor | int:
        if self.filler == "blank":
            return 0
        if self.filler == "random":
            return below(bits(key, examples, count), self.vocab_size)
        return outside(below(bits(key, examples, count), self.vocab_size - pairs.shape[1]), pairs)

    def _validate(self, split: Split) -> None:
        if not self._loads[split]:
            raise ValueError(
                f"task.{split} has no segments: give at least one {{seq_len, num_kv_pairs, num_examples}}."
            )
        for i, load in enumerate(self._loads[split]):
            where = f"task.{split}[{i}]"
            at_least(f"{where}.num_examples", load.num_examples, 1)
            at_least(f"{where}.num_kv_pairs", load.num_kv_pairs, 1)
            if load.seq_len % 2:
                raise ValueError(f"{where}.seq_len (={load.seq_len}) must be even; use {load.seq_len + 1}.")
            self._fits(where, load)

    def _fits(self, where: str, load: Load) -> None:
        n, passes, keys = load.num_kv_pairs, self.num_passes, self.vocab_size // 2 - 1
        factor = 2 * (passes + 1)
        if factor * n > load.seq_len:
            raise ValueError(
                f"{where} does not fit: {factor} * num_kv_pairs (={n}) must be at most seq_len "
                f"(={load.seq_len}) with num_passes={passes}; "
                f"use up to {load.seq_len // factor} pairs or {factor * n} tokens."
            )
        if keys < n:
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has {max(keys, 0)} keys, too few for "
                f"{where}.num_kv_pairs (={n}); use at least {2 * n + 2}."
            )


def _load(split: Split, entry: Load | Mapping[str, int]) -> Load:
    if isinstance(entry, Load):
        return entry
    names = [field.name for field in fields(Load)]
    if not isinstance(entry, Mapping) or sorted(entry) != sorted(names):
        raise ValueError(f"a segment of task.{split} must be {{{', '.join(names)}}}; it is {entry}.")
    for name in names:
        if type(entry[name]) is not int:
            raise ValueError(
                f"{name} (={entry[name]!r}) of a segment of task.{split} must be a whole number."
            )
    return Load(**entry)
