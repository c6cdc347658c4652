"""The one contract every task obeys: examples as a pure function of (config, seed, split, example index).

Laws, tested for every task: each scored answer can be found in its own past and there is one right
answer; an oracle scores 100 % and guessing scores `chance`; the same config and seed give the same
bytes on every device, whatever the batch; train, validation and test never meet.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Data = Literal["fixed", "stream"]
DATA: tuple[Data, ...] = ("fixed", "stream")
Order = Literal["sequential", "shuffled", "interleaved"]
ORDERS: tuple[Order, ...] = ("sequential", "shuffled", "interleaved")


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Examples of one shape.  Every batch is drawn from one segment, so shapes are static.

    slice: what names this segment in the metrics, e.g. {"seq_len": 64, "num_kv_pairs": 4}.
    """

    seq_len: int
    num_examples: int
    slice: dict[str, int]

    @property
    def name(self) -> str:
        """The slice as one word: "seq_len=64,num_kv_pairs=4"."""
        return ",".join(f"{key}={value}" for key, value in self.slice.items())


class Batch(NamedTuple):
    """B examples of length T with A scored answers each; everything else in a row is not scored."""

    inputs: Int[Tensor, "B T"]
    positions: Int[Tensor, "B A"]  # where the answer is asked for; the prediction is read off here
    answers: Int[Tensor, "B A"]  # the one right token
    sources: Int[Tensor, "B A"]  # where in the row's past the asked key stands (the latest such place)


class Task(ABC):
    """Built from the config; `__init__` validates it with messages a person can act on.

    data: what an epoch of training sees.  fixed: the same examples every time; stream: new ones.
    order: how the batches of the training segments follow each other.  sequential: segment by segment;
        shuffled: permuted, anew each epoch, from the seed; interleaved: a round robin in proportion to the
        segments' batch counts, the same each epoch.
    """

    seed: int
    vocab_size: int
    data: Data
    order: Order

    @abstractmethod
    def segments(self, split: Split) -> list[Segment]:
        """The segments of a split, in order."""

    @abstractmethod
    def sample(
        self,
        split: Split,
        segment: int,
        examples: Int[Tensor, " B"] | range,
        device: torch.device | str = "cpu",
    ) -> Batch:
        """The examples with these indices (non-negative, up to 40 bits) of one segment."""

    @abstractmethod
    def chance(self, segment: Segment) -> float:
        """Expected accuracy of the best guess that has seen the task but not the row."""
