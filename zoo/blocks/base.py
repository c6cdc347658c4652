"""A block: one mixer, its norm, and how the result joins the residual stream.

B batch, T time, D model width.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from jaxtyping import Bool
from torch import Tensor, nn

from zoo.common.checks import one_of
from zoo.common.part import Part
from zoo.mixers.base import Links, Mixer, Seq
from zoo.mixers.cache import owned
from zoo.mixers.state import StateSize, total

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}
EPS = 1e-5


class Stream(NamedTuple):
    """The residual stream between blocks: the latest output, not yet added, and the sum of all before."""

    hidden: Seq
    residual: Seq | None  # None in front of the first block
    links: Links  # what mixers leave for the layers above

    def sum(self) -> Tensor:
        """Return the residual stream with the latest output added."""
        return self.hidden if self.residual is None else self.residual + self.hidden


class BlockState(NamedTuple):
    """The decoding state of one layer: the mixer's state, and the channel mix's state if it has one."""

    mixer: Any
    mlp: Any = None


class Block(nn.Module, Part, ABC):
    """A layer: residual += hidden; hidden = mixer(norm(residual)); then what `after` does.

    embed_dropout: share of the embedding's entries that training sets to zero before the first block.
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
        """Build a norm of this block's kind."""
        return NORMS[self.norm_kind](self.d_model, eps=EPS)

    def new_final_norm(self) -> nn.Module:
        """Build the norm between the last of such blocks and the model's head."""
        return self.new_norm()

    def forward(self, stream: Stream) -> Stream:
        """Add the latest output to the stream, and mix the normed stream of a whole sequence."""
        residual = self._collect(stream)
        x = self.norm(residual)
        mixed, left = self.mixer.forward_linked(x, self._read(stream))
        return Stream(*self.after(self._as_wide(mixed, x), residual), stream.links | left)

    def extend(self, stream: Stream, state: BlockState | None) -> tuple[Stream, BlockState]:
        """Do what `forward` does after `state` (None: the start); the new state holds no activations."""
        before = state or BlockState(None)
        residual = self._collect(stream)
        x = self.norm(residual)
        mixed, mixer_state, left = self.mixer.extend_linked(x, before.mixer, self._read(stream))
        hidden, residual, mlp_state = self.extend_after(self._as_wide(mixed, x), residual, before.mlp)
        return Stream(hidden, residual, stream.links | left), BlockState(*owned((mixer_state, mlp_state)))

    def state_size(self, seq_len: int) -> StateSize:
        """Count the memory of one sequence after `seq_len` tokens, over all parts that look back."""
        return total(part.state_size(seq_len) for part in self.remembering)

    def visible(self, wanted: Bool[Tensor, "*R T"]) -> Bool[Tensor, "*R T"]:
        """Return the inputs that the block's wanted outputs can depend on."""
        for part in reversed(self.remembering):
            wanted = wanted | part.visible(wanted)  # the residual passes by
        return wanted

    @property
    def remembering(self) -> list[Mixer]:
        """The parts that look back, in the order in which a token passes them."""
        return [self.mixer]

    @abstractmethod
    def after(self, mixed: Seq, residual: Seq) -> tuple[Seq, Seq]:
        """Return the next block's hidden and residual, from the mixer's output and the stream it read."""

    def extend_after(self, mixed: Seq, residual: Seq, state: Any) -> tuple[Seq, Seq, Any]:
        """Do what `after` does, continuing from the state of its channel mix if it has one."""
        return *self.after(mixed, residual), None

    def _read(self, stream: Stream) -> Links:
        return {name: stream.links[name] for name in self.mixer.reads if name in stream.links}

    def _as_wide(self, mixed: Seq, x: Seq) -> Seq:
        """Raise ValueError for another shape: a width of one would be broadcast without an error."""
        if mixed.shape != x.shape:
            raise ValueError(
                f"{type(self.mixer).__name__} gives {list(mixed.shape)} for an input of {list(x.shape)}: "
                "a mixer's output must be as long and as wide as its input."
            )
        return mixed

    def _collect(self, stream: Stream) -> Tensor:
        return self.embed_dropout(stream.hidden) if stream.residual is None else stream.sum()
