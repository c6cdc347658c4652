"""The residual stream of the reference code (Zoology, Arora et al. 2023), for comparing with its numbers.

A block of the reference also has a "state mixer", which is the identity in the figures.  Even so it has an
effect: the block adds the normed stream to the stream.  The reference also redraws every linear layer inside
a mixer from N(0, 0.02), in place of the mixer's own initial weights; here model.redraw=true does that.
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
        """Add the mixer's output to the stream, and pass on the stream's norm, as the reference does."""
        residual = residual + mixed
        return self.state_norm(residual), residual
