"""N-gram recall: a row shows a string and n letters of it, and asks what follows them in the string.

Jelassi et al. 2024, "Repeat after me" (arXiv 2402.01032), appendix; sjelassi/transformers_ssm_copy,
synthetic_exps/data_utils.py.  One question about a string is

    suffix   $ string | n-gram answer .            prefix   $ n-gram | string | answer .

where the answer is what follows the n-gram up to the string's end, or its first `answer_length` letters; the
mark after it is asked for, too.  A row holds questions one after the other, with strings of uniform length
and letters; a question that the row's end cuts is not asked, and the pad * fills the places after the last.

Deliberate difference: the n-gram that is asked stands in its string once (in theirs only some n-gram does).
Strings are uniform among those that have such an n-gram with a letter after it; the n-gram is uniform too.
"""

from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import IGNORED, Batch, Segment
from zoo.tasks.groups import Distance, Words
from zoo.tasks.mixture import Load, Mixture

Form = Literal["suffix", "prefix"]
LENGTHS, LETTERS, NGRAM = range(3)
MARKS = 4  # the last tokens: $ | . *
LEAST = torch.iinfo(torch.int64).min


@dataclass(frozen=True, kw_only=True)
class Strings(Load):
    """A segment whose rows hold up to `strings` questions, on strings of shortest to longest letters."""

    shortest: int
    longest: int
    strings: int


class Drawn(NamedTuple):
    """The E strings of a row, and the place in each where the n-gram begins."""

    letters: Int[Tensor, "B E S"]
    lengths: Int[Tensor, "B E"]
    places: Int[Tensor, "B E"]


class NgramRecall(Mixture):
    """The task of n-gram recall.  Args, besides those of Mixture:

    vocab_size: the letters and four marks; 30 there.
    form: suffix: the n-gram comes after the string; prefix: before it.
    ngram: n, 2 to 4 there.
    answer_length: the most letters of an answer; null: up to the end of the string.
    """

    load_kind, load = Strings, "longest"
    groups = MappingProxyType({"distance": Distance(), "answer": Words(("letter", "end"))})

    def __init__(self, *, form: Form, ngram: int, answer_length: int | None, **mixture: Any):
        one_of("task.form", form, get_args(Form))
        at_least("task.ngram", ngram, 1)
        if answer_length is not None:
            at_least("task.answer_length", answer_length, 1)
        self.form: Form = form
        self.ngram, self.answer_length = ngram, answer_length
        super().__init__(**mixture)
        self.spoken = (self.vocab_size - 2,)

    @property
    def _letters(self) -> int:
        return self.vocab_size - MARKS

    def chance(self, segment: Segment) -> float:
        """Return the score of guessing at each place the end mark or one letter, the more frequent one."""
        shortest, longest = segment.count("shortest"), segment.count("longest")
        share = [0.0] * (longest - self.ngram + 1)  # share of answers by number of letters
        for length in range(shortest, longest + 1):
            rests = range(1, length - self.ngram + 1)
            for rest in rests:
                share[self._answered(rest)] += 1 / len(rests) / (longest - shortest + 1)
        right = sum(max(end, sum(share[i + 1 :]) / self._letters) for i, end in enumerate(share))
        return right / (1 + sum(i * end for i, end in enumerate(share)))

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold the answer to the n-gram that begins a longest string, in which the first letter
        does not come again, so that the n-gram stands there once."""
        return self._answered(segment.count("longest") - self.ngram) * log2(self._letters - 1)

    def _answered(self, rest: int) -> int:
        return rest if self.answer_length is None else min(rest, self.answer_length)

    def _next(self, past: list[int]) -> int:
        """Return the right token after this beginning of a row; 0 if nothing is asked there."""
        begin, bar, end, _ = range(self._letters, self.vocab_size)
        start = len(past) - past[::-1].index(begin)
        parts = [[]]
        for token in past[start:]:
            parts.append([]) if token == bar else parts[-1].append(token)
        if len(parts) < (3 if self.form == "prefix" else 2):
            return 0
        string = parts[0] if self.form == "suffix" else parts[1]
        ngram = (parts[1] if self.form == "suffix" else parts[0])[: self.ngram]
        written = len(parts[-1]) - (self.ngram if self.form == "suffix" else 0)
        places = [i for i in range(len(string)) if string[i : i + self.ngram] == ngram]
        if len(places) != 1 or written < 0:
            return 0
        answer = string[places[0] + self.ngram :][: self.answer_length]
        return [*answer, end][written] if written <= len(answer) else 0

    def _rows(self, load: Strings, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        drawn = self._draw(load, path, examples)
        rest = drawn.lengths - drawn.places - self.ngram
        answered = rest if self.answer_length is None else rest.clamp(max=self.answer_length)
        sizes = drawn.lengths + answered + (self.ngram + 3 if self.form == "suffix" else self.ngram + 4)
        ends = sizes.cumsum(1)

        t = torch.arange(load.seq_len, device=examples.device).repeat(len(examples), 1)
        question = torch.searchsorted(ends, t, right=True).clamp(max=load.strings - 1)
        mine = [x.gather(1, question) for x in (drawn.lengths, drawn.places, answered, sizes, ends)]
        length, place, answered, size, end = mine
        o = t - end + size  # offset in its question
        letter, sources, read = self._layout(o, length, place)
        tokens = drawn.letters.flatten(1).gather(
            1, question * load.longest + letter.clamp(0, load.longest - 1)
        )
        tokens = self._marked(tokens, o, length, size)
        scored = (read >= 0) & (read <= answered) & (end <= load.seq_len) & (o < size)
        # the most answers of a row: each takes the place that asks it and a letter of the string before
        most = min(load.seq_len // 2, load.strings * (self._answered(load.longest - self.ngram) + 1))
        return self._gathered(tokens, (o - sources).where(scored, 0), most)

    def _layout(self, o: Tensor, length: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return for offset o of a question which letter of its string stands there, if it is no mark; from
        which offset the token asked there is read; and how many letters of the answer come before it."""
        n = self.ngram
        if self.form == "suffix":
            string, again = 1, length + 2  # offsets of the string and of what is copied from it
            letter = (o - string).where(o < again, o - again + place)
            read = o - again - n + 1
        else:
            string, again = n + 2, length + n + 3
            letter = (o - string).where(o < again, o - again + place + n)
            letter = (o - 1 + place).where(o <= n, letter)
            read = o - again + 1
        return letter, string + place + n - 1 + read, read

    def _marked(self, letters: Tensor, o: Tensor, length: Tensor, size: Tensor) -> Int[Tensor, "B T"]:
        """Return the row's tokens, with marks where no letter stands."""
        begin, bar, stop, pad = range(self._letters, self.vocab_size)
        n = self.ngram
        bars = o == length + 1 if self.form == "suffix" else (o == n + 1) | (o == length + n + 2)
        for token, there in ((bar, bars), (begin, o == 0), (stop, o == size - 1), (pad, o >= size)):
            letters = letters.masked_fill(there, token)
        return letters

    def _gathered(self, inputs: Tensor, distances: Int[Tensor, "B T"], most: int) -> Batch:
        """Return the batch that asks at the places of distance above 0 for the tokens after them."""
        scored = distances > 0
        rank = (scored.cumsum(1) - 1).where(scored, most).clamp(max=most)
        places = torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)
        positions = inputs.new_zeros(len(inputs), most + 1).scatter_(1, rank, places)[:, :-1]
        is_one = torch.arange(most, device=inputs.device) < scored.sum(1, keepdim=True)
        answers = inputs.gather(1, (positions + 1).clamp(max=inputs.shape[1] - 1)).where(is_one, IGNORED)
        groups = {
            "distance": distances.gather(1, positions).clamp(min=1),
            "answer": (answers == self.vocab_size - 2).long(),
        }
        return Batch(inputs, positions.where(is_one, inputs.shape[1] - 1), answers, groups)

    def _draw(self, load: Strings, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Drawn:
        rows, e = len(examples), load.strings
        spread = below(bits(stream(*path, LENGTHS), examples, e), load.longest - load.shortest + 1)
        lengths = load.shortest + spread
        letters = examples.new_empty(rows, e, load.longest)
        places = torch.full_like(lengths, -1)
        attempt = 0
        while len(left := (places < 0).any(1).nonzero()[:, 0]):
            again, long, open_ = examples[left], lengths[left], (places[left] < 0)
            drawn = below(bits(stream(*path, LETTERS, attempt), again, e * load.longest), self._letters)
            drawn = drawn.view(len(left), e, -1)
            race = bits(stream(*path, NGRAM, attempt), again, e * load.longest).view_as(drawn)
            fit = self._once(drawn, long)
            fitting = race[..., : fit.shape[-1]].where(fit, LEAST).argmax(2).where(fit.any(2), -1)
            letters[left] = drawn.where(open_[..., None], letters[left])
            places[left] = fitting.where(open_, places[left])
            attempt += 1
        return Drawn(letters, lengths, places)

    def _once(self, letters: Int[Tensor, "B E S"], lengths: Int[Tensor, "B E"]) -> Bool[Tensor, "B E G"]:
        """Return whether the n-gram that begins here stands in the string once, with a letter after it."""
        powers = torch.tensor([self._letters**k for k in range(self.ngram)], device=letters.device)
        grams = (letters.unfold(2, self.ngram, 1) * powers).sum(3)
        i = torch.arange(grams.shape[2], device=letters.device)
        grams = grams.where(i <= lengths[..., None] - self.ngram, -1 - i)
        alone = (grams[..., None] == grams[..., None, :]).sum(3) == 1
        return alone & (i < lengths[..., None] - self.ngram)

    def _fits(self, where: str, load: Strings) -> None:
        n = self.ngram
        at_least("task.vocab_size", self.vocab_size, MARKS + 2)
        at_least(f"{where}.strings", load.strings, 1)
        at_least(f"{where}.shortest", load.shortest, n + 1)
        at_least(f"{where}.longest", load.longest, load.shortest)
        longest = 2 * load.longest + (4 if self.form == "prefix" else 3)
        if longest > load.seq_len:
            raise ValueError(
                f"{where} does not fit: a question on {load.longest} letters takes up to {longest} tokens, "
                f"more than seq_len (={load.seq_len}); use up to {(load.seq_len - 4) // 2} letters."
            )
        most = 4 * self._letters**n  # longer strings hardly ever have an n-gram that stands once
        if not load.longest <= most < 2**62:
            raise ValueError(
                f"{where}.longest (={load.longest}) must be at most 4 * letters (={self._letters}) ** ngram "
                f"(={n}) = {most}, and that below 2**62, or no n-gram stands in a string once."
            )
