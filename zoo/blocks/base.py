"""A block: one mixer, its norm, and how the result joins the residual stream.

B batch, T time, D model width.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from torch import Tensor, nn

from zoo.checks import one_of
from zoo.mixers.base import Mixer, Seq

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}
EPS = 1e-5


class Stream(NamedTuple):
    """What passes between blocks: the latest output, not yet added, and the sum of all before it."""

    hidden: Seq
    residual: Seq | None  # None in front of the first block

    def sum(self) -> Tensor:
        return self.hidden if self.residual is None else self.residual + self.hidden


class Block(nn.Module, ABC):
    """residual += hidden; hidden = mixer(norm(residual)); then whatever `after` does.

    embed_dropout: share of the embedding's entries that training zeroes in front of the first block.
    """

    def __init__(self, mixer: Mixer, d_model: int, norm: str, embed_dropout: float) -> None:
        super().__init__()
        one_of("block.norm", norm, tuple(NORMS))
        if not 0 <= embed_dropout < 1:
            raise ValueError(f"block.embed_dropout (={embed_dropout}) must be at least 0 and below 1.")
        self.mixer, self.d_model, self.norm_kind = mixer, d_model, norm
        self.embed_dropout = nn.Dropout(embed_dropout)
        self.norm = self.new_norm()

    def new_norm(self) -> nn.Module:
        """A norm of this block's kind, as the model puts one before its head."""
        return NORMS[self.norm_kind](self.d_model, eps=EPS)

    def forward(self, stream: Stream) -> Stream:
        residual = self._collect(stream)
        return self.after(self.mixer(self.norm(residual)), residual)

    def extend(self, stream: Stream, state: Any) -> tuple[Stream, Any]:
        """As `forward`, going on from the mixer's state (None: the start of a sequence)."""
        residual = self._collect(stream)
        mixed, state = self.mixer.extend(self.norm(residual), state)
        return self.after(mixed, residual), state

    @abstractmethod
    def after(self, mixed: Seq, residual: Seq) -> Stream:
        """From the mixer's output and the stream it was read from to what the next block gets."""

    def _collect(self, stream: Stream) -> Tensor:
        return self.embed_dropout(stream.hidden) if stream.residual is None else stream.sum()
