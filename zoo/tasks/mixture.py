"""The base of tasks that are a mixture of segments, given in the yaml:

    train: [{seq_len: 32, num_kv_pairs: 4, num_examples: 8512}, ...]      valid, test: likewise

A task's own file defines the other fields of a segment (a dataclass that extends Load), refuses impossible
segments (`_fits`), and makes rows (`_rows`).  This module handles seeds, splits, orders and chunks.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints
from zlib import crc32

from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.tasks.base import (
    DATA,
    ORDERS,
    SPLITS,
    Batch,
    Data,
    Device,
    Examples,
    Order,
    Segment,
    Split,
    Task,
    concatenated,
    indices,
)

CHUNK = {"cpu": 2**18}  # tokens made at a time, so that the intermediates stay in the cache
CHUNK_ELSEWHERE = 2**25


@dataclass(frozen=True, kw_only=True)
class Load:
    """One segment of a mixture, as the config states it.

    A task adds its own fields: whole numbers, or words whose type is a Literal of the allowed ones.
    """

    seq_len: int
    num_examples: int

    def slice(self) -> dict[str, int | str]:
        """Return all fields but the number of examples, which together name the segment."""
        return {name: getattr(self, name) for name in axes(type(self))}


def axes(kind: type[Load]) -> list[str]:
    """Return the keys of a slice of such segments, seq_len first."""
    return [field.name for field in fields(kind) if field.name != "num_examples"]


Entries = Iterable[Load | Mapping[str, int | str]]


class Mixture(Task):
    """The base of tasks that are a mixture of segments.  Args:

    seed: the seed of all the data.
    vocab_size: how many tokens there are.
    data, order: for training, see Task.
    train, valid, test: the segments; their keys are the fields of the task's own `load_kind`.
    """

    load_kind: ClassVar[type[Load]] = Load

    def __init__(
        self,
        *,
        seed: int,
        vocab_size: int,
        data: Data,
        order: Order,
        train: Entries,
        valid: Entries,
        test: Entries,
    ):
        one_of("task.data", data, DATA)
        one_of("task.order", order, ORDERS)
        at_least("task.vocab_size", vocab_size, 2)
        self.seed, self.vocab_size, self.data, self.order = seed, vocab_size, data, order
        mixtures = zip(SPLITS, (train, valid, test), strict=True)
        self._loads = {split: self._checked(split, mixture) for split, mixture in mixtures}

    def _checked(self, split: Split, mixture: Entries) -> list[Load]:
        """Return the segments of a split.  ValueError, one line: there is none, or one is impossible."""
        loads = [self._sized(split, self._load(split, entry)) for entry in mixture]
        if not loads:
            raise ValueError(f"task.{split} has no segments: give at least one {self._shape()}.")
        for i, load in enumerate(loads):
            at_least(f"task.{split}[{i}].num_examples", load.num_examples, 1)
            self._fits(f"task.{split}[{i}]", load)
            at_least(f"task.{split}[{i}].seq_len", load.seq_len, 1)
        return loads

    def loads(self, split: Split) -> list[Load]:
        """Return the segments of a split as the config states them."""
        return self._loads[split]

    @property
    def length_follows(self) -> bool:
        """Return whether the length of a row follows from the other fields of its segment (`_length`)."""
        return type(self)._length is not Mixture._length

    def tested_on(self, loads: Iterable[Load]) -> Self:
        """Return the same task with these segments as its test split."""
        other = copy(self)
        other._loads = self._loads | {"test": self._checked("test", loads)}
        return other

    @abstractmethod
    def _rows(self, load: Any, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        """Return these examples of a segment, on the device of `examples`.

        path: names the segment's random streams: `zoo.common.counter_rng.stream(*path, PURPOSE)`.
        """

    def _fits(self, where: str, load: Any) -> None:
        """Raise ValueError if the segment is impossible; where: its place in the config, for the message."""

    def _length(self, load: Any) -> int:
        """Return the tokens of a row.  A task whose row length follows from its other fields computes the
        length here, and its segments leave out seq_len, whose default is then 0."""
        return load.seq_len

    def _sized(self, split: Split, load: Load) -> Load:
        length = self._length(load)
        if load.seq_len not in (0, length):
            raise ValueError(
                f"seq_len (={load.seq_len}) of a segment of task.{split} must be {length}: leave it out."
            )
        return replace(load, seq_len=length)

    def segments(self, split: Split) -> list[Segment]:
        return [
            Segment(seq_len=load.seq_len, num_examples=load.num_examples, slice=load.slice())
            for load in self._loads[split]
        ]

    def sample(self, split: Split, segment: int, examples: Examples, device: Device = "cpu") -> Batch:
        one_of("split", split, SPLITS)
        count = len(self._loads[split])
        if not 0 <= segment < count:
            raise ValueError(f"segment (={segment}) must be from 0 to {count - 1}: {split} has {count}.")
        examples, load = indices(examples).to(device), self._loads[split][segment]
        path = (self.seed, SPLITS.index(split), segment, *map(_number, load.slice().values()))
        rows = max(1, CHUNK.get(examples.device.type, CHUNK_ELSEWHERE) // load.seq_len)
        return concatenated([self._rows(load, path, chunk) for chunk in examples.split(rows)])

    @classmethod
    def _shape(cls) -> str:
        return "{" + ", ".join([*axes(cls.load_kind), "num_examples"]) + "}"

    @classmethod
    def _load(cls, split: Split, entry: Load | Mapping[str, int | str]) -> Load:
        """Return the segment that a config's entry states."""
        if isinstance(entry, Load):
            return entry
        kinds = get_type_hints(cls.load_kind)
        needed = {field.name for field in fields(cls.load_kind) if field.default is MISSING}
        if not isinstance(entry, Mapping) or not needed <= set(entry) <= set(kinds):
            raise ValueError(f"a segment of task.{split} must be {cls._shape()}; it is {entry}.")
        for name, value in entry.items():
            words = get_args(kinds[name]) if get_origin(kinds[name]) is Literal else ()
            if words:
                one_of(f"{name} of a segment of task.{split}", str(value), words)
            elif type(value) is not int:
                raise ValueError(f"{name} (={value!r}) of a segment of task.{split} must be a whole number.")
        return cls.load_kind(**entry)  # pyright: ignore[reportArgumentType]


class OwnVocabulary(Mixture):
    """A mixture that determines its own vocabulary size, `tokens`, before it calls this `__init__`."""

    tokens: int

    def __init__(
        self, *, seed: int, data: Data, order: Order, train: Entries, valid: Entries, test: Entries
    ) -> None:
        splits = {"train": train, "valid": valid, "test": test}
        super().__init__(seed=seed, vocab_size=self.tokens, data=data, order=order, **splits)


def _number(value: int | str) -> int:
    """Return a number as is, and a word as a number that is the same on every machine."""
    return value if isinstance(value, int) else crc32(value.encode())
