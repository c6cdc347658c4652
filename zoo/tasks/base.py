"""The contract of every task: examples are a pure function of (config, seed, split, example index).

The laws (`zoo.tasks.laws`) are checked for every task: there is one right answer, and an exact program
(`oracle`) finds it in the tokens before it; guessing scores `chance`; the same config and seed give the same
bytes on every device and in every batch; training, validation and test share no row.
"""

import copyreg
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.part import Part
from zoo.kernels.linear_cross_entropy.reference import IGNORED
from zoo.tasks.groups import Distance, Group

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Data = Literal["fixed", "stream"]
DATA: tuple[Data, ...] = ("fixed", "stream")
Examples = Int[Tensor, " B"] | range | list[int]  # of a segment: indices, non-negative, up to 40 bits
Device = torch.device | str
Order = Literal["sequential", "shuffled", "interleaved"]
ORDERS: tuple[Order, ...] = ("sequential", "shuffled", "interleaved")
Kind = Literal["recall", "computation", "text"]
# tasks have such mappings, and are copied and pickled
copyreg.pickle(MappingProxyType, lambda of: (MappingProxyType, (dict(of),)))


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Examples of one shape.  Every batch is drawn from one segment, so shapes are static.

    slice: the name of this segment in the metrics, made of whole numbers and words without "," and "=", e.g.
        {"seq_len": 64, "num_kv_pairs": 4} or {"seq_len": 64, "subtask": "single_1"}.
    """

    seq_len: int
    num_examples: int
    slice: dict[str, int | str]

    @property
    def name(self) -> str:
        """Return the slice as one word: "seq_len=64,num_kv_pairs=4"."""
        return ",".join(f"{key}={value}" for key, value in self.slice.items())

    def count(self, key: str) -> int:
        """Return the whole number that the slice has under this key."""
        return int(self.slice[key])


class Batch(NamedTuple):
    """B examples of length T with places for A answers each; everything else in a row is not scored.

    A row asks at least once.  Where it has fewer answers than A, the rest are IGNORED.
    """

    inputs: Int[Tensor, "B T"]
    positions: Int[Tensor, "B A"]  # where the prediction is read off; any place where the answer is IGNORED
    answers: Int[Tensor, "B A"]  # the one right token, or IGNORED
    groups: Mapping[str, Int[Tensor, "B A"]] = {}  # each answer's value in every group of `Task.groups`

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the parts that a training step uses."""
        return self.inputs, self.positions, self.answers

    @classmethod
    def of(cls, *tensors: Tensor) -> "Batch":
        """Build a batch without groups from its three tensors."""
        inputs, positions, answers = tensors
        return cls(inputs, positions, answers)


def indices(examples: Examples) -> Int[Tensor, " B"]:
    """Return the indices of the examples as a tensor.  ValueError: one of a range is negative."""
    if not isinstance(examples, range):
        return torch.as_tensor(examples)
    if len(examples):
        at_least("an example", min(examples[0], examples[-1]), 0)
    return torch.arange(examples.start, examples.stop, examples.step)


def joined(function: Callable[..., Tensor], *batches: Batch) -> Batch:
    """Apply `function` to the batches' tensors, field by field and group by group."""
    inputs, positions, answers = (
        function(*field) for field in zip(*(batch.tensors for batch in batches), strict=True)
    )
    groups = {name: function(*(batch.groups[name] for batch in batches)) for name in batches[0].groups}
    return Batch(inputs, positions, answers, groups)


def concatenated(batches: Sequence[Batch]) -> Batch:
    """Join batches into one that has all their rows, in order."""
    return batches[0] if len(batches) == 1 else joined(lambda *parts: torch.cat(parts), *batches)


class Task(Part, ABC):
    """A source of examples, built from the config; `__init__` validates the config with messages to act on.

    data: what an epoch of training sees.  fixed: the same examples every time; stream: new ones.
    order: how the batches of the training segments follow each other.  sequential: segment by segment;
        shuffled: permuted from the seed, differently each epoch; interleaved: a round robin in proportion to
        the segments' batch counts, the same each epoch.
    kind: recall: an answer is read from an earlier place; computation: it is worked out; text: it is written.
    groups: how the scores tell answers apart, by name.  Recall declares {"distance": Distance()}.
    spoken: answers of a recall task that stand at no place of a row, such as "none of them" or the end mark.
    separator, stop: if the answers of a row are written one after the other: the token between two parts of
        an answer, and the token after the last part; None: there is no such token.
    stacked: a place of a row holds two tokens side by side, left + M * right with M = vocab_size/2; right 0
        is nothing.  Answers are below M, and the model's embeddings are not trained (zoo.model.stacked).
    load: the key of a slice whose whole number says how much a row asks a model to keep; None: no such key.
    decoder: all answers are read off one position, and a decoder (zoo.blocks.decoder) tells them apart.
    made_from: facts about the data that no setting states, by name, for the record: for a text its SHA-256
        and the versions of its sources.
    """

    seed: int
    vocab_size: int
    data: Data
    order: Order
    kind: Kind = "recall"
    groups: Mapping[str, Group] = MappingProxyType({})
    load: str | None = None
    spoken: tuple[int, ...] = ()
    separator: int | None = None
    stop: int | None = None
    stacked: bool = False
    decoder: bool = False
    made_from: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def segments(self, split: Split) -> list[Segment]:
        """Return the segments of a split, in order."""

    @abstractmethod
    def sample(self, split: Split, segment: int, examples: Examples, device: Device = "cpu") -> Batch:
        """Return the examples with these indices (non-negative, up to 40 bits) of one segment."""

    @abstractmethod
    def chance(self, segment: Segment) -> float:
        """Return the expected accuracy of the best guess by someone who knows the task but not the row."""

    def least_bits(self, segment: Segment) -> float | None:
        """Return the bits that a state must hold at some place of a row for all later answers to be right.

        None: no bound is stated.

        The bound is log2 of a number of beginnings of a row, all of one length.  Any two of them can be
        continued alike to a question with different answers, so a reader has to tell them apart.  The state
        that a model needs may be larger."""
        del segment

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        """Return the right answers, each worked out from the row's tokens up to and including its position.

        By default this calls `_next`; the result is IGNORED where `_next` raises LookupError or ValueError,
        as for a past that no row of the task has.  Results where nothing is asked are not used.  A text has
        no oracle.
        """
        rows = zip(inputs.tolist(), positions.tolist(), strict=True)
        answers = [[self._tried(row[: position + 1]) for position in places] for row, places in rows]
        return torch.tensor(answers, device=inputs.device).view_as(positions)

    def _tried(self, past: list[int]) -> int:
        try:
            return self._next(past)
        except (LookupError, ValueError):
            return IGNORED

    def _next(self, past: list[int]) -> int:
        """Return the right answer after this beginning of a row, in plain Python."""
        raise NotImplementedError(f"{type(self).__name__} has no oracle.")


def sources(task: Task, batch: Batch) -> Int[Tensor, "B A"] | None:
    """Return the place of the row that each answer is read from; None: the task declares no distances."""
    groups = [name for name, group in task.groups.items() if isinstance(group, Distance)]
    return batch.positions - batch.groups[groups[0]] if groups else None
