"""Build what rows of recall tasks share: a context that binds, questions behind it, and filler elsewhere."""

from dataclasses import dataclass
from math import lgamma, log
from typing import Any, Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.common.counter_rng import below, bits
from zoo.tasks.base import Segment
from zoo.tasks.groups import Number
from zoo.tasks.mixture import Load, Mixture
from zoo.tasks.sampling import outside

Filler = Literal["safe", "random", "blank"]
DEPTH = Number(10)  # the tenth of the context in which an answer stands; 0 is the oldest


@dataclass(frozen=True, kw_only=True)
class Pairs(Load):
    """A segment whose rows show num_kv_pairs pairs."""

    num_kv_pairs: int


class AskedLater(Mixture):
    """The base of tasks whose questions follow the context at gaps drawn from a power law.

    Args, besides those of Mixture:

    power_a: 0.01 in every figure: a gap of i has a weight of about 1/i, so short gaps prevail; 1: uniform.
    filler: the tokens that are neither context nor question, see `fill`.
    """

    def __init__(self, *, power_a: float, filler: Filler, **mixture: Any):
        one_of("task.filler", filler, get_args(Filler))
        if not power_a > 0:
            raise ValueError(f"task.power_a (={power_a}) must be positive; 0.01 is the paper's, 1 uniform.")
        self.power_a = power_a
        self.filler: Filler = filler
        super().__init__(**mixture)

    @property
    def num_values(self) -> int:
        """Return how many tokens can be an answer."""
        return self.vocab_size - self.vocab_size // 2

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same value."""
        return 1 / self.num_values

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold which value each key has: any of them may be asked for next."""
        return bits_of_different(segment.count("num_kv_pairs"), self.num_values)


def bits_of_different(count: int, of: int) -> float:
    """Return log2 of the number of ways to give `count` keys different values out of `of`."""
    return (lgamma(of + 1) - lgamma(of - count + 1)) / log(2)


def bits_of_subset(count: int, of: int) -> float:
    """Return log2 of the number of sets of `count` out of `of`."""
    return bits_of_different(count, of) - lgamma(count + 1) / log(2)


def check_room(where: str, load: Pairs, each: int, more: int = 0) -> None:
    """Raise ValueError if rows with `each` tokens a pair, and `more` besides, do not fit their length."""
    n, length = load.num_kv_pairs, load.seq_len
    at_least(f"{where}.num_kv_pairs", n, 1)
    if length % 2:
        raise ValueError(f"{where}.seq_len (={length}) must be even; use {length + 1}.")
    if each * n + more > length:
        besides = f" + {more}" if more else ""
        raise ValueError(
            f"{where} does not fit: {each} * num_kv_pairs (={n}){besides} must be at most seq_len "
            f"(={length}); use up to {max(0, length - more) // each} pairs or {each * n + more} tokens."
        )


def check_keys(where: str, load: Pairs, vocab_size: int) -> None:
    """Raise ValueError if half of the vocabulary, less the 0, has fewer keys than there are pairs."""
    n, keys = load.num_kv_pairs, vocab_size // 2 - 1
    if keys < n:
        raise ValueError(
            f"task.vocab_size (={vocab_size}) has {max(keys, 0)} keys, too few for "
            f"{where}.num_kv_pairs (={n}); use at least {2 * n + 2}."
        )


def fill(
    filler: Filler, key: int, examples: Int[Tensor, " B"], count: int, taken: Int[Tensor, "B K"], words: int
) -> Int[Tensor, "B count"]:
    """Return `count` tokens without a meaning for each row.

    safe: uniform over the tokens below `words` that are not `taken` (distinct in a row), so that none can
    create or overwrite an answer; random: uniform over all tokens below `words` (the reference's
    random_non_queries=True; the answer stays the one bound in the context); blank: token 0
    (random_non_queries=False).
    """
    if filler == "blank":
        return examples.new_zeros(1, 1).expand(len(examples), count)
    if filler == "random":
        return below(bits(key, examples, count), words)
    return outside(below(bits(key, examples, count), words - taken.shape[1]), taken)


def asked_behind(
    context: Int[Tensor, "B C"],
    filling: Int[Tensor, "B F"],
    questions: Int[Tensor, "B n w"],
    gaps: Int[Tensor, "B n"],
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B n"]]:
    """Return rows of T = C + F tokens whose question j begins at C + (w+1) gaps[j], and the questions' ends.

    At least one token of filler, never the answer, follows each question."""
    inputs, width = torch.cat([context, filling], 1), questions.shape[-1]
    starts = context.shape[1] + (width + 1) * gaps
    for i in range(width):
        inputs.scatter_(1, starts + i, questions[..., i])
    return inputs, starts + width - 1


def last_place(tokens: Int[Tensor, "B S"], wanted: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
    """Return the last place of each wanted token; 0 if the token is absent."""
    places = torch.arange(tokens.shape[1], device=tokens.device)
    return ((tokens[:, None] == wanted[..., None]) * places).amax(-1)


def tenth(place: Int[Tensor, "*n"], of: int) -> Int[Tensor, "*n"]:
    """Return the depth of each place 0 <= i < of, see DEPTH."""
    return place * 10 // of
