"""Make the eleven questions of ruler_lite, after RULER (Hsieh et al. 2024, arXiv 2404.06654; NVIDIA/RULER).

A row is BOS context QUERY query ANS part AND part ... AND part, and the last answer is EOS.  Differences:

- RULER has thirteen tasks: the two that ask questions on real text (SQuAD, HotpotQA) are left out.
- Names of variables and coded words are shorter, as are UUIDs (32 digits there); word lists have no numbers.
- No worked example comes before a row.
- Needles stand at any place, and every order is drawn for each row (there, one is drawn for all); keys are
  drawn without replacement (there, with).
- The essay is a passage drawn for each row (there, one essay from its beginning).
- Common words come as often as the length allows (there, 30 and 3 times from 4,096 tokens on).
- The score counts the answer's tokens in order (there, the parts in any order, as evaluation=greedy does).
- Tasks are averaged in five groups of ours; the code there reports each task, and their mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.tasks.ruler.draws import Draws, For
from zoo.tasks.ruler.haystacks import Essay, hidden, phrase
from zoo.tasks.ruler.tokens import (
    ADJECTIVES,
    DIGITS,
    DOTS,
    EQ,
    FOR,
    HEX,
    IS,
    LETTERS,
    NEEDLE,
    NOUNS,
    SEP,
    VAR,
    WORDS,
    listed,
    row,
    written,
)  # fmt: skip

FRAME = 3  # BOS, QUERY, ANS
WORD_KEYS = len(ADJECTIVES) * len(NOUNS)


class Drawn(NamedTuple):
    """A drawn question.  query: the tokens between QUERY and ANS.  parts: the answer's parts, in order.

    starts: where in the context the needle of each part begins; None: a part has places all over the context.
    """

    context: Int[Tensor, "B C"]
    query: Int[Tensor, "B q"]
    parts: Int[Tensor, "B m w"]
    starts: Int[Tensor, "B m"] | None


class Question(ABC):
    """A question.  least, query: tokens of the shortest context and of the query.  parts: parts of an answer.
    odds: the probability of the likeliest token at each place of a part, without having seen the row."""

    least: int
    query: int
    parts: int
    odds: tuple[float, ...]

    @property
    def around(self) -> int:
        """Return the number of a row's tokens that are not context (the row does not hold EOS)."""
        return FRAME + self.query + self.parts * (len(self.odds) + 1) - 1

    @property
    def chance(self) -> float:
        """Return the expected accuracy of a guess; the tokens between parts and at the end are certain."""
        return (sum(self.odds) + 1) / (len(self.odds) + 1)

    @abstractmethod
    def ask(self, draws: Draws, size: int, essay: Essay) -> Drawn:
        """Draw the question for each row; size: tokens of the context."""


def _words(draws: Draws, count: int) -> Int[Tensor, "B count 2"]:
    """Return `count` different pairs of adjective and noun for each row."""
    drawn = draws.distinct(For.KEYS, count, WORD_KEYS)
    return torch.stack([drawn // len(NOUNS) + ADJECTIVES.start, drawn % len(NOUNS) + NOUNS.start], -1)


def _uuids(draws: Draws, count: int, heads: For, tails: For) -> Int[Tensor, "B count 8"]:
    """Return hexadecimal numbers that differ in their first five digits; a draw has at most 16**5 values."""
    head, tail = draws.distinct(heads, count, 16**5), draws.below(tails, count, 16**3)
    return torch.cat([written(head, HEX, 5), written(tail, HEX, 3)], -1)


def _numbers(draws: Draws, count: int) -> Int[Tensor, "B count 7"]:
    """Return numbers of seven digits, from 10**6 on as in RULER, each drawn independently."""
    head, tail = draws.below(For.VALUES, count, 9000) + 1000, draws.below(For.VALUE_TAILS, count, 1000)
    return torch.cat([written(head, DIGITS, 4), written(tail, DIGITS, 3)], -1)


NUMBER, UUID = (1 / 9, *[1 / 10] * 6), (1 / 16,) * 8


class Needles(Question):
    """Ask for the values of some keys; the needles NEEDLE FOR key IS value SEP are hidden in the context.

    hay: what the needles are hidden in; "needles": only needles of other keys, and words in the rest.
    uuid_keys, uuid_values: hexadecimal numbers, else two words and seven digits.  keys: how many different
    keys there are; values: how many each has; queries: how many keys are asked.
    """

    def __init__(
        self,
        hay: Literal["phrase", "essay", "needles"],
        *,
        uuid_keys: bool = False,
        uuid_values: bool = False,
        keys: int = 1,
        values: int = 1,
        queries: int = 1,
    ) -> None:
        self.hay, self.uuid_keys, self.uuid_values = hay, uuid_keys, uuid_values
        self.keys, self.values, self.queries = keys, values, queries
        self.odds = UUID if uuid_values else NUMBER
        key = 8 if uuid_keys else 2
        self.query, self.parts = queries * (key + 1) - 1, queries * values
        self.needle = 4 + key + len(self.odds)  # tokens of one needle
        self.least = self.needle * (2 if hay == "needles" else keys * values)

    def ask(self, draws: Draws, size: int, essay: Essay) -> Drawn:
        count = min(size // self.needle, WORD_KEYS) if self.hay == "needles" else self.keys
        keys = _uuids(draws, count, For.KEYS, For.KEY_TAILS) if self.uuid_keys else _words(draws, count)
        drawn = count * self.values
        uuids = self.uuid_values
        values = _uuids(draws, drawn, For.VALUES, For.VALUE_TAILS) if uuids else _numbers(draws, drawn)
        needles = _needles(keys.repeat_interleave(self.values, 1), values)
        space = size - needles.shape[1] * self.needle
        hay = phrase(draws, space) if self.hay == "phrase" else essay.text(draws, space)
        context, starts = hidden(hay, needles.flatten(1), [self.needle] * needles.shape[1], draws)
        chosen = draws.order(For.ASKED, count)[:, : self.queries, None]
        queried = (self.values * chosen + draws.range(self.values)).flatten(1)
        query = listed(torch.take_along_dim(keys, chosen, 1), SEP)[:, :-1]
        parts = torch.take_along_dim(values, queried[..., None], 1)
        return Drawn(context, query, parts, starts.gather(1, queried))


def _needles(keys: Int[Tensor, "B n k"], values: Int[Tensor, "B n w"]) -> Int[Tensor, "B n u"]:
    words = row(NEEDLE, FOR, keys.flatten(0, 1), IS, values.flatten(0, 1), SEP, like=keys.flatten(0, 1))
    return words.unflatten(0, keys.shape[:2])


class Chain(Question):
    """Ask which variables hold 12345 after VAR a EQ 12345 SEP, VAR b EQ VAR a SEP, ... in this order."""

    least, query, parts, odds = 42, 5, 5, (1 / len(LETTERS),) * 2

    def ask(self, draws: Draws, size: int, essay: Essay) -> Drawn:
        names = written(draws.distinct(For.KEYS, self.parts, len(LETTERS) ** 2), LETTERS, 2)
        value = written(draws.below(For.VALUES, 1, 90_000)[:, 0] + 10_000, DIGITS, 5)
        chain = [row(VAR, names[:, 0], EQ, value, SEP, like=value)]
        for i in range(1, self.parts):
            chain.append(row(VAR, names[:, i], EQ, VAR, names[:, i - 1], SEP, like=value))
        hay = phrase(draws, size - self.least)
        context, starts = hidden(hay, torch.cat(chain, 1), [part.shape[1] for part in chain], draws)
        return Drawn(context, value, names, starts)


class Common(Question):
    """Ask which ten words of a list come more often than the others, in the order of their first places."""

    least, query, parts, odds = 40, 0, 10, (1 / len(WORDS),)

    def ask(self, draws: Draws, size: int, essay: Essay) -> Drawn:
        often, seldom = self.copies(size)
        others = -(-(size - self.parts * often) // seldom)
        copies = [often] * self.parts + [seldom] * others
        words = draws.distinct(For.KEYS, len(copies), len(WORDS)) + WORDS.start
        context, places = _shuffled(words, copies, size, draws)
        first = places[:, : self.parts * often].unflatten(1, (self.parts, often)).amin(2)
        return Drawn(
            context, draws.columns(torch.arange(0)), words.gather(1, first.argsort())[..., None], None
        )

    def copies(self, size: int) -> tuple[int, int]:
        """Return the copies of each common word, and the most of any other word: 6 and 1 if possible (as in
        RULER's short lists), 3 and 1 in the shortest lists, 10 to 1 in longer ones."""
        if size <= 6 * self.parts + (most := len(WORDS) - self.parts):
            return 6 if size >= 9 * self.parts else 3, 1
        seldom = -(-size // (10 * self.parts + most))
        return 10 * seldom, seldom


class Frequent(Question):
    """Ask for the words of ranks 2 to 4 in a list where the word of rank k comes in proportion to 1 / k^2.
    Rank 1 is DOTS, which is noise and also fills the places that rounding leaves."""

    least, query, parts, odds = 53, 0, 3, (1 / len(WORDS),)

    def ask(self, draws: Draws, size: int, essay: Essay) -> Drawn:
        copies = self.copies(size)
        words = draws.distinct(For.KEYS, len(copies) - 1, len(WORDS)) + WORDS.start
        context, _ = _shuffled(row(DOTS, words, like=words), copies, size, draws)
        return Drawn(context, draws.columns(torch.arange(0)), words[:, : self.parts, None], None)

    def copies(self, size: int) -> list[int]:
        """Return the number of copies by rank, from rank 1; ranks that round to no copy are left out."""
        zeta_2 = torch.pi**2 / 6
        counts = [int(size / (zeta_2 * rank**2)) for rank in range(2, len(WORDS) + 2)]
        return [size - sum(counts), *filter(None, counts)]


def _shuffled(
    words: Int[Tensor, "B n"], copies: list[int], size: int, draws: Draws
) -> tuple[Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return copies[i] copies of word i, `size` in all, in an order of each row's own; and their places."""
    of = torch.repeat_interleave(torch.tensor(copies, device=words.device))[:size]
    places = draws.order(For.SHUFFLE, size)
    return torch.empty_like(places).scatter_(1, places, words[:, of]), places


QUESTIONS: dict[str, Question] = {
    "single_1": Needles("phrase"),
    "single_2": Needles("essay"),
    "single_3": Needles("essay", uuid_values=True),
    "multikey_1": Needles("essay", keys=4),
    "multikey_2": Needles("needles"),
    "multikey_3": Needles("needles", uuid_keys=True, uuid_values=True),
    "multivalue": Needles("essay", values=4),
    "multiquery": Needles("essay", keys=4, queries=4),
    "vt": Chain(),
    "cwe": Common(),
    "fwe": Frequent(),
}
GROUPS = {
    "NIAH-S": ("single_1", "single_2", "single_3"),
    "NIAH-M": ("multikey_1", "multikey_2", "multikey_3"),
    "NIAH-M-QV": ("multivalue", "multiquery"),
    "VT": ("vt",),
    "CF-WE": ("cwe", "fwe"),
    "Average": tuple(QUESTIONS),  # mean of the eleven tasks, not of the groups
}


def group_means(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the mean score of each of five groups of tasks and of all eleven, from a score of each task."""
    for name in QUESTIONS:
        if name not in scores:
            raise ValueError(f"no score of {name}: a group is the mean of all its tasks.")
    return {group: sum(scores[name] for name in names) / len(names) for group, names in GROUPS.items()}
