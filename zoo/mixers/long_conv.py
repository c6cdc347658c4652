"""Learn the weights of a long convolution one by one, and a gated linear layer over its outputs.

Fu et al., "Simple Hardware-Efficient Long Convolutions for Sequence Modeling" (arXiv 2302.06646).

B batch, T time, D model width, S inputs kept.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.common.checks import at_least, one_of
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.long_filter import LongFilter
from zoo.mixers.state import StateSize

STD = {"normal": 0.002, "double_exp": 0.02}  # of the initial weights, as published


class State(NamedTuple):
    past: Float[Tensor, "B S D"]  # the inputs, S = min(tokens so far, max_len - 1)


class LongConv(Mixer[State]):
    """Convolve each channel with a learned filter of max_len taps, then mix channels by a gated layer:
    y = GLU(gelu(u) W + b), u_t = sum_{r < max_len} k[:, r] x_{t-r} + skip x_t.

    squash: k is softshrink(taps, squash), which is sparse: a tap of at most this size is zero and has no
        gradient.  The published code's default of 0.1 is above every initial tap, so that its filter stays
        zero for ever.  Here squash must be smaller than the initial weights.
    init: normal, N(0, 0.002^2), or double_exp, N(0, 0.02^2) times exp(-(r / max_len) floor(D / 2)^(d / D)) in
        channel d.
    """

    def __init__(self, *, d_model: int, max_len: int, squash: float, init: str) -> None:
        super().__init__()
        at_least("d_model", d_model, 1)
        one_of("init", init, tuple(STD))
        if squash >= STD[init]:
            raise ValueError(
                f"squash (={squash}) must be below {STD[init]}, the initial size of the weights with "
                f"init={init}: others never leave zero."
            )
        self.d_model, self.max_len = d_model, max_len
        self.conv = LongFilter(d_model, max_len, squash=squash)
        self.out_proj = nn.Linear(d_model, 2 * d_model)
        self._draw(init)

    @torch.no_grad()
    def _draw(self, init: str) -> None:
        taps = nn.init.normal_(self.conv.taps, std=STD[init])  # pyright: ignore[reportArgumentType]
        if init == "double_exp":
            channel, time = torch.arange(self.d_model)[:, None], torch.arange(self.max_len)
            taps *= torch.exp(-time / self.max_len * math.floor(self.d_model / 2) ** (channel / self.d_model))

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Convolve with the inputs in reach, then gate; keep the last max_len - 1 inputs."""
        u, past = self.conv(x, None if state is None else state.past)
        return F.glu(self.out_proj(F.gelu(u)), dim=-1), State(past)

    def state_size(self, seq_len: int) -> StateSize:
        """Count the inputs, max_len - 1 at most; the published count has no such limit."""
        held = self.d_model * min(seq_len, self.max_len - 1)
        return StateSize.read_whole(held, paper=self.d_model * seq_len)

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the last token that the filter carries each input to."""
        return torch.arange(seq_len) + self.max_len - 1
