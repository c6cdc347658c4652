"""BaseConv gates a convolution by a projection, the simplest layer that can shift and compare.

B batch, T time, D model width, C channels of the convolution, S inputs kept.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple, one_of
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.long_filter import LongFilter
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize

LONG = -1


class State(NamedTuple):
    past: Float[Tensor, "B S C"]  # S = kernel_size - 1, or min(tokens so far, max_len - 1) when long


class BaseConv(Mixer[State]):
    """Convolve each channel causally and multiply by a projection of the token, in two published forms.

    expand None: y = act(conv(u)) * act(u W + b) + u (Zoology, arXiv 2312.04927, as its code has it: note the
        residual inside the layer).  C = D.
    expand a:    [u1, u2] = u W_in + b;  y = (act(conv(u1)) * u2) W_out + b (Based, arXiv 2402.18668, Eq. 7,
        with a = 4 and SiLU).  C = a D / 2.

    kernel_size: taps of the convolution; -1 is a long one (`zoo.mixers.long_filter`), the only one that uses
        max_len, filter, emb_dim and filter_dim.
    Published counts hold kernel_size inputs; kernel_size - 1 are enough.
    """

    def __init__(
        self,
        *,
        d_model: int,
        kernel_size: int,
        expand: int | None,
        activation: str,
        max_len: int = 1024,
        filter: str = "implicit",
        emb_dim: int = 5,
        filter_dim: int = 16,
    ) -> None:
        super().__init__()
        one_of("activation", activation, ("none", "silu"))
        if kernel_size != LONG:
            at_least("kernel_size", kernel_size, 1)
        if expand is not None:
            multiple("expand * d_model", expand * d_model, "two halves", 2)
        self.channels = d_model if expand is None else expand * d_model // 2
        self.kernel_size, self.silu = kernel_size, activation == "silu"
        self.long = kernel_size == LONG
        self.reach = max_len if self.long else kernel_size
        self.conv = (
            LongFilter(self.channels, max_len, filter, emb_dim, filter_dim)
            if self.long
            else ShortConv(self.channels, kernel_size)
        )
        self.in_proj = nn.Linear(d_model, d_model if expand is None else 2 * self.channels)
        self.out_proj = None if expand is None else nn.Linear(self.channels, d_model)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Convolve and gate the new tokens; keep the inputs that the filter still reaches."""
        past = None if state is None else state.past
        if self.out_proj is None:
            mixed, past = self.conv(x, past)
            return torch.addcmul(x, self._act(mixed), self._act(self.in_proj(x))), State(past)
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        mixed, past = self.conv(u, past)
        return self.out_proj(self._act(mixed) * gate), State(past)

    def _act(self, x: Tensor) -> Tensor:
        return F.silu(x) if self.silu else x

    def state_size(self, seq_len: int) -> StateSize:
        """Count the inputs that the filter reaches back to; a long one fills up with the sequence."""
        held = self.channels * (min(seq_len, self.reach - 1) if self.long else self.reach - 1)
        paper = self.channels * (seq_len if self.long else self.reach)
        return StateSize.read_whole(held, paper=paper)

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the last token that the filter carries each input to."""
        return torch.arange(seq_len) + self.reach - 1
