"""Measure the forgetting curve: how well a language model repeats a text it has just read, by the length.

Liu et al. 2024, "Forgetting Curve: A Reliable Method for Evaluating Memorization Capability for Long-context
Models", section 3.  For a length l and a text S of l tokens, cut at random from a corpus:

    copy    bos S bos S eos        the first text is S itself
    lm      bos I bos S eos        the first text is another text I of l tokens from the corpus

Under teacher forcing the most likely next token is compared with S at the last ceil(l / 2) tokens of the
second text; the first half shows the model that it should copy.  The source of every scored token lies l + 1
tokens back, and the model must accept 2 l + 3 tokens.

On purpose not as in the authors' code: I never overlaps S and is drawn again each time (theirs is always the
end of the corpus); bos and eos are the corpus's own; S can come from anywhere in the corpus.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import index, stream

COPY, LM = "copy", "lm"
HEAD_AT_ONCE = 1024  # positions of a row whose logits are in memory at once
SELF = "corpus"  # the name of the corpus itself, as the source of irrelevant texts

Predict = Callable[[Int[Tensor, "B T"], Int[Tensor, " A"]], Int[Tensor, "B A"]]
"""(inputs, positions) -> the most likely token after each of these positions, the same ones in every row."""


def forgetting_curve(
    predict: Predict,
    ids: Int[Tensor, " N"],
    lengths: Iterable[int],
    *,
    bos: int,
    eos: int,
    seed: int,
    repeats: int = 10,
    irrelevant: Mapping[str, Int[Tensor, " M"]] | None = None,
    rows_at_once: int = 1,
) -> pd.DataFrame:
    """Return one row a text: columns length, kind ("copy" or "lm"), prefix, repeat, accuracy, tokens.

    ids: the corpus.  bos, eos: the tokens that open and end a text.
    irrelevant: by name, the sources of the other text of an lm row, each a level of the factor `prefix`;
        None: the corpus, outside of S.  A copy row's prefix is "".
    rows_at_once: sequences in one call of `predict`.
    The copy and lm rows of a (length, repeat) have the same text S, whatever the other lengths are.
    ValueError, one line: a corpus shorter than 3 l tokens, other texts shorter than l, lengths below 2.
    """
    queries = sorted(set(lengths))
    _check(ids, queries, irrelevant or {}, repeats)
    ask = _Query(predict, ids, bos, eos, rows_at_once)
    return pd.concat([_at(length, ask, irrelevant, seed, repeats) for length in queries], ignore_index=True)


def most_likely(
    logits: Callable[[Float[Tensor, "B a D"]], Float[Tensor, "B a V"]], hidden: Float[Tensor, "B A D"]
) -> Int[Tensor, "B A"]:
    """Return a head's most likely token for each state, with the logits of HEAD_AT_ONCE places at a time."""
    parts = hidden.split(HEAD_AT_ONCE, dim=1)
    return torch.cat([logits(part).argmax(-1) for part in parts], dim=1)


def grid(longest: int, count: int = 32, spacing: str = "geometric", shortest: int = 8) -> list[int]:
    """Return `count` lengths from `shortest` to `longest`, rounded down, without repeats, in this spacing."""
    at_least("shortest", shortest, 2)
    at_least("longest", longest, shortest)
    steps = torch.linspace(0, 1, count, dtype=torch.float64)
    if spacing == "linear":
        values = shortest + steps * (longest - shortest)
    else:
        values = shortest * (longest / shortest) ** steps
    return sorted({*(values + 1e-9).long().tolist()})


def scored(length: int) -> Int[Tensor, " A"]:
    """Return the positions after which the last ceil(length / 2) tokens of the second text are asked."""
    first = length + 2 + length // 2
    return torch.arange(first, 2 * length + 2) - 1


def _at(
    length: int, ask: "_Query", others: Mapping[str, Int[Tensor, " M"]] | None, seed: int, repeats: int
) -> pd.DataFrame:
    starts, apart = _cuts(ask.ids, length, seed, repeats)
    texts = _windows(ask.ids, starts, length)
    before = {"": texts}
    if others is None:
        before[SELF] = _windows(ask.ids, apart, length)
    for i, (name, other) in enumerate((others or {}).items()):
        starts = index(stream(seed, length, 1 + i), torch.arange(repeats), len(other) - length + 1)
        before[name] = _windows(other, starts, length)
    rows = [
        {"length": length, "kind": LM if name else COPY, "prefix": name, "repeat": i, "accuracy": accuracy}
        for name, first in before.items()
        for i, accuracy in enumerate(ask.accuracies(first, texts))
    ]
    return pd.DataFrame(rows).assign(tokens=len(scored(length)))


@dataclass(frozen=True)
class _Query:
    predict: Predict
    ids: Int[Tensor, " N"]
    bos: int
    eos: int
    rows_at_once: int

    def accuracies(self, first: Int[Tensor, "R L"], texts: Int[Tensor, "R L"]) -> list[float]:
        """Return the share of each row's scored tokens that the model predicts."""
        bos, eos = (texts.new_full((len(texts), 1), mark) for mark in (self.bos, self.eos))
        inputs = torch.cat([bos, first, bos, texts, eos], dim=1)
        positions = scored(texts.shape[1])
        predicted = torch.cat([self.predict(x, positions).cpu() for x in inputs.split(self.rows_at_once)])
        return (predicted == inputs[:, positions + 1]).double().mean(1).tolist()


def _cuts(ids: Tensor, length: int, seed: int, repeats: int) -> tuple[Tensor, Tensor]:
    """Return uniform starts of the texts S, and for each a uniform start of a text not overlapping S."""
    room = len(ids) - length + 1
    starts = index(stream(seed, length, 0), torch.arange(repeats), room)
    before = (starts - length + 1).clamp(min=0)  # the starts whose texts end before S
    after = (room - (starts + length)).clamp(min=0)
    others = index(stream(seed, length, -1), torch.arange(repeats), before + after)
    return starts, torch.where(others < before, others, others - before + starts + length)


def _windows(ids: Tensor, starts: Tensor, length: int) -> Int[Tensor, "R L"]:
    return ids[starts[:, None] + torch.arange(length)].long()


def _check(ids: Tensor, lengths: Sequence[int], irrelevant: Mapping[str, Tensor], repeats: int) -> None:
    at_least("repeats", repeats, 1)
    if not lengths:
        raise ValueError("lengths is empty: name at least one.")
    at_least("the shortest length", lengths[0], 2)
    longest = lengths[-1]
    if len(ids) < 3 * longest:
        raise ValueError(
            f"the corpus ({len(ids)} tokens) must hold 3 x {longest} tokens: "
            f"use lengths up to {len(ids) // 3}, or more text."
        )
    for name, other in irrelevant.items():
        if len(other) < longest:
            raise ValueError(f"the other text {name!r} ({len(other)} tokens) must hold {longest} tokens.")
