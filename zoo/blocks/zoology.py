"""The residual stream of the reference code (Zoology, Arora et al. 2023), for comparing with its numbers.

There a block also has a "state mixer", which in the figures is the identity.  It is no no-op: the block adds
the normed stream to the stream.  The reference also redraws every linear layer inside a mixer from
N(0, 0.02), over the mixers' own initial weights; here that is asked for (model.redraw=true).
"""

from torch import nn

from zoo.blocks.base import Block
from zoo.mixers.base import Mixer, Seq


class Zoology(Block):
    """residual += h; h = mixer(LN1(residual)); residual += h; h = LN2(residual), added by the next block."""

    def __init__(self, *, mixer: Mixer, d_model: int, embed_dropout: float) -> None:
        super().__init__(mixer, d_model, "layer", embed_dropout)
        self.state_norm: nn.Module = self.new_norm()

    def after(self, mixed: Seq, residual: Seq) -> tuple[Seq, Seq]:
        """Add the mixer's output to the stream and pass its norm on, as the reference's identity does."""
        residual = residual + mixed
        return self.state_norm(residual), residual
