"""A phone book: a row shows names with numbers, repeats two as examples, and asks the number of a name.

Jelassi et al. 2024, "Repeat after me" (arXiv 2402.01032), section 4, without a tokeniser.  An entry is a
first name, a last name and seven digits, the first from 6 to 9 as in the paper.  A row with N entries is

    | entry_0 ... entry_{N-1} | entry_i entry_j | first_k last_k d_1 ... d_6      answers: d_1 ... d_7

with names uniform without replacement among all combinations, i, j, k uniform and different.  Each digit is
read off one token before it stands; the mark | is token 0, digits are 1..10, a third of the other tokens are
first names and the rest are last names.
"""

from dataclasses import dataclass
from math import log2
from types import MappingProxyType

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.context import DEPTH, tenth
from zoo.tasks.groups import Distance, Number
from zoo.tasks.mixture import Load, Mixture
from zoo.tasks.sampling import distinct

NAMES, NUMBERS, CHOSEN = range(3)
MARK, DIGIT, NAME = 0, 1, 11  # the mark, the digit 0, the first of the first names
DIGITS, ENTRY = 7, 9  # tokens of a number and of an entry
LOWEST = 6  # the lowest first digit of a number
MORE = 3 + 2 * ENTRY + ENTRY - 1  # tokens of a row besides the book


@dataclass(frozen=True, kw_only=True)
class Book(Load):
    """A segment whose rows show num_entries entries."""

    seq_len: int = 0  # follows: 9 * num_entries + 29
    num_entries: int


class Phonebook(Mixture):
    """The phone book task.  The group `digit` is an answer's place in its number, from 0.  See Mixture."""

    load_kind, load = Book, "num_entries"
    groups = MappingProxyType({"distance": Distance(), "depth": DEPTH, "digit": Number(DIGITS)})

    @property
    def _first_names(self) -> int:
        return (self.vocab_size - NAME) // 3

    @property
    def _last_names(self) -> int:
        return self.vocab_size - NAME - self._first_names

    def chance(self, segment: Segment) -> float:
        """Return the score of one digit from 6 to 9: 1 in 4 at the start of a number, 1 in 10 elsewhere."""
        return (1 / (10 - LOWEST) + (DIGITS - 1) / 10) / DIGITS

    def least_bits(self, segment: Segment) -> float | None:
        """A state must hold all numbers but those of the two entries that are shown again."""
        return (segment.count("num_entries") - 2) * (log2(10 - LOWEST) + (DIGITS - 1) * log2(10))

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return, at each position, the next digit of the number after the name in the book."""
        book = inputs[:, 1 : 1 - MORE].unflatten(1, (-1, ENTRY))
        name = inputs[:, 1 - ENTRY : 3 - ENTRY]
        entry = (book[:, :, :2] == name[:, None]).all(2).int().argmax(1)
        number = book[torch.arange(len(book), device=book.device), entry, 2:]
        return number.gather(1, positions - (inputs.shape[1] - DIGITS))

    def _rows(self, load: Book, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        n, rows = load.num_entries, len(examples)
        pair = distinct(stream(*path, NAMES), examples, n, self._first_names * self._last_names)
        first, last = pair // self._last_names, pair % self._last_names + self._first_names
        drawn = bits(stream(*path, NUMBERS), examples, n * DIGITS).view(rows, n, DIGITS)
        digits = torch.cat([LOWEST + below(drawn[..., :1], 10 - LOWEST), below(drawn[..., 1:], 10)], 2)
        book = torch.cat([NAME + first[..., None], NAME + last[..., None], DIGIT + digits], 2)

        chosen = distinct(stream(*path, CHOSEN), examples, 3, n)
        again = book.gather(1, chosen[..., None].expand(rows, 3, ENTRY))
        mark = book.new_full((rows, 1), MARK)
        inputs = torch.cat([mark, book.flatten(1), mark, again[:, :2].flatten(1), mark, again[:, 2, :-1]], 1)
        digit = torch.arange(DIGITS, device=examples.device).expand(rows, DIGITS)
        query, positions = chosen[:, 2:], load.seq_len - DIGITS + digit
        groups = {
            "distance": positions - (1 + ENTRY * query + 1 + digit),
            "depth": tenth(query, n).expand(rows, DIGITS),
            "digit": digit,
        }
        return Batch(inputs, positions, again[:, 2, 2:], groups)

    def _length(self, load: Book) -> int:
        return ENTRY * load.num_entries + MORE

    def _fits(self, where: str, load: Book) -> None:
        n = load.num_entries
        at_least(f"{where}.num_entries", n, 3)
        at_least("task.vocab_size", self.vocab_size, NAME + 3)
        if self._first_names * self._last_names < n:
            names = self._first_names * self._last_names
            raise ValueError(
                f"task.vocab_size (={self.vocab_size}) has {names} names, too few for "
                f"{where}.num_entries (={n}): raise it."
            )
