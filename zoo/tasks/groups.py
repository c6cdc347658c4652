"""Groups that tell the answers of a task apart, so that each kind of answer has a score of its own."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

FARTHEST = 40  # bins of distance; the last holds up to 2**39 tokens and all beyond


class Group(ABC):
    """A group: a batch gives each answer a whole number, and scores count the answers in `size` bins."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the number of bins; it is known before a row is made, so counting waits for no device."""

    def bins(self, values: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
        """Return the bin of each value, below `size`; a value beyond the last bin counts in the last bin."""
        return values.clamp(0, self.size - 1)

    def holds(self, values: Int[Tensor, "*n"]) -> Bool[Tensor, "*n"]:
        """Return which of the values are valid for the group."""
        return (values >= 0) & (values < self.size)

    @abstractmethod
    def label(self, bin_: int) -> int | str:
        """Return the name of the bin in tables."""


@dataclass(frozen=True)
class Distance(Group):
    """A group by distance: the tokens from an answer's source to the place where it is asked, 1 or more.

    The bin called d, a power of two, holds those above d / 2 and up to d.
    """

    @property
    def size(self) -> int:
        return FARTHEST

    def bins(self, values: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
        return values.double().log2().ceil().long().clamp(max=FARTHEST - 1)

    def holds(self, values: Int[Tensor, "*n"]) -> Bool[Tensor, "*n"]:
        return values >= 1

    def label(self, bin_: int) -> int:
        return 2**bin_


@dataclass(frozen=True)
class Words(Group):
    """A group by named kinds of answers; a batch's value is the index of a name in `names`."""

    names: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.names)

    def label(self, bin_: int) -> str:
        return self.names[bin_]


@dataclass(frozen=True)
class Number(Group):
    """A group by number: values 0 to below - 1 have a bin each, as a pair's index or a tenth of depth."""

    below: int

    @property
    def size(self) -> int:
        return self.below

    def label(self, bin_: int) -> int:
        return bin_
