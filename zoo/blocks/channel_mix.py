"""RWKV's channel mixes: MLPs that look one token back, so that they keep a state.

Value and receptance weights start at zero, key weights orthogonal, and shares as in x052 and x070 of
github.com/BlinkDL/RWKV-LM.  (Its RWKV-4 also multiplies the key weights by the square root of `ratio`, and
its RWKV-6 raises `early` to the third power.)

B batch, T time, D model width, W = ratio * D.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize
from zoo.mixers.token_shift import Depth, TokenShift, channels


class State(NamedTuple):
    last: Float[Tensor, "B D"]  # the last input


class _LooksBack(Mixer[State]):
    """A mixer that sees a token and the one before it."""

    d_model: int

    def state_size(self, seq_len: int) -> StateSize:
        """Count the last input; the published counts leave it out."""
        return StateSize(paper=0, resident=self.d_model, touched=self.d_model)

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the token after each input, which is the last that sees the input."""
        return torch.arange(1, seq_len + 1)


class ChannelMix(_LooksBack):
    """y = sigmoid(W_r x_r) * W_v relu(W_k x_k)^2, x_k and x_r shifted (RWKV-4, 5 and 6; arXiv 2305.13048)."""

    def __init__(self, d_model: int, ratio: float = 4.0, layer: int = 0, n_layers: int = 2) -> None:
        super().__init__()
        width, share = _width(ratio, d_model), 1 - channels(d_model) ** Depth.of(layer, n_layers).early
        self.d_model = d_model
        self.shift = TokenShift(share, share)
        self.key = nn.Linear(d_model, width, bias=False)
        self.receptance = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(width, d_model, bias=False)
        nn.init.orthogonal_(self.key.weight)
        for zero in (self.receptance, self.value):
            nn.init.zeros_(zero.weight)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Mix each token's channels with those of the token before; keep the last input."""
        (x_k, x_r), last = self.shift(x, None if state is None else state.last)
        y = self.value(F.relu(self.key(x_k)).square())
        return torch.sigmoid(self.receptance(x_r)) * y, State(last)


class ChannelMix7(_LooksBack):
    """y = W_v relu(W_k x_k)^2, x_k shifted (RWKV-7; arXiv 2503.14456)."""

    def __init__(self, d_model: int, ratio: float = 4.0, layer: int = 0, n_layers: int = 2) -> None:
        super().__init__()
        width, early = _width(ratio, d_model), Depth.of(layer, n_layers).early
        self.d_model = d_model
        self.shift = TokenShift(1 - channels(d_model) ** early**4)
        self.key = nn.Linear(d_model, width, bias=False)
        self.value = nn.Linear(width, d_model, bias=False)
        nn.init.orthogonal_(self.key.weight)
        nn.init.zeros_(self.value.weight)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Mix each token's channels with those of the token before, ungated; keep the last input."""
        (x_k,), last = self.shift(x, None if state is None else state.last)
        return self.value(F.relu(self.key(x_k)).square()), State(last)


def _width(ratio: float, d_model: int) -> int:
    width = round(ratio * d_model)
    if width < 1:
        raise ValueError(f"ratio (={ratio}) times d_model (={d_model}) must be at least 1.")
    return width
