"""Hyena puts gates around convolutions with long filters, which a small network computes.

Poli et al., "Hyena Hierarchy" (arXiv 2302.10866), Definition 3.1 and Section 3.3.

B batch, T time, D model width, M = order - 1 long filters, S tokens so far, K taps of the short convolution.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, covers, positive
from zoo.kernels.fft_conv import fft_conv
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed

SMALL = 0.01  # value of the window after the fraction of max_len that `decay` names


class State(NamedTuple):
    past: Float[Tensor, "B M S D"]
    tail: Float[Tensor, "B K-1 (M+2)*D"]


class HyenaFilter(nn.Module):
    """Compute long filters by a small network of the time, and multiply them by a decaying window:
    k[c, t] = MLP(features(t))[c] * (exp(-|delta_c| t / (max_len - 1)) + shift), sines between the layers.

    Times are fractions of the fixed `max_len`, never of the input's length, with which a prefix would have
    another filter.  Decay rates are constants.  Features are constants too, unless train_features makes them
    weights that start from those values, as in zoology.  All weights carry `no_weight_decay = True`;
    the published recipe also gives them their own learning rate (1e-3), which is not reproduced here.
    """

    features: Tensor
    window: Tensor

    def __init__(
        self,
        channels: int,
        max_len: int,
        width: int,
        emb_dim: int,
        sine_freq: float,
        decay: tuple[float, float],
        shift: float,
        train_features: bool,
    ) -> None:
        super().__init__()
        self.decay, self.shift = tuple(decay), shift
        exact, kept = torch.float64, torch.get_default_dtype()
        t = torch.arange(max_len, dtype=exact) / (max_len - 1)
        bands = torch.linspace(1e-4, (emb_dim - 1) // 2 - 1, (emb_dim - 1) // 2, dtype=exact)
        angle = 2 * math.pi * (torch.arange(max_len, dtype=exact) / max_len)[:, None] * bands
        features = torch.cat([t[:, None], angle.cos(), -angle.sin()], dim=1)
        slow, fast = (abs(math.log(SMALL)) / d for d in (max(decay), min(decay)))
        window = torch.exp(-t[:, None] * torch.linspace(slow, fast, channels, dtype=exact)) + shift
        if train_features:
            self.features = nn.Parameter(features.to(kept))
        else:
            self.register_buffer("features", features.to(kept), persistent=False)
        self.register_buffer("window", window.to(kept), persistent=False)
        self.layers = nn.ModuleList(
            [nn.Linear(emb_dim, width), nn.Linear(width, width), nn.Linear(width, width)]
        )
        self.freq = nn.Parameter(torch.full((width,), float(sine_freq)))  # one for all layers
        self.out = nn.Linear(width, channels, bias=False)
        undecayed(*self.parameters())

    def forward(self, length: int) -> Float[Tensor, "M*D T"]:
        """Return the first `length` taps of every filter."""
        hidden = self.features[:length]
        for layer in self.layers:
            hidden = torch.sin(self.freq * layer(hidden))
        return (self.out(hidden) * self.window[:length]).T


class Hyena(Mixer[State]):
    """Alternate gates x_m, made from the tokens, with convolutions by filters as long as the sequence:
    z <- x_1 v;  then for each long filter m: z <- x_{m+1} (k_m * z + skip_m z).

    There is no finite recurrence: the memory is every z so far.  A sequence of more than `max_len` tokens is
    refused, since the filters have no more taps; LongConv and BaseConv accept it, and forget.
    emb_dim: features of a time, odd.  The usual 3 gives one frequency, 1e-4, whose waves are constant until
        they are trained (train_features, as in zoology); hence 33.
    decay: fractions of max_len until the window is 0.01 + shift, in the fastest and slowest channel.
    """

    small_out = True

    def __init__(
        self,
        *,
        d_model: int,
        max_len: int,
        order: int,
        kernel_size: int,
        filter_dim: int,
        emb_dim: int,
        sine_freq: float,
        decay: tuple[float, float],
        shift: float,
        train_features: bool,
    ) -> None:
        super().__init__()
        at_least("order", order, 2)
        at_least("max_len", max_len, 2)
        at_least("filter_dim", filter_dim, 1)
        positive("sine_freq", sine_freq)
        if len(decay) != 2 or not min(decay) > 0:
            raise ValueError(f"decay (={list(decay)}) must be two positive fractions of max_len.")
        if emb_dim < (least := 3 if train_features else 5) or emb_dim % 2 == 0:
            raise ValueError(f"emb_dim (={emb_dim}) must be odd and at least {least}, a time and waves.")
        self.d_model, self.max_len, self.order = d_model, max_len, order
        self.in_proj = nn.Linear(d_model, (order + 1) * d_model)
        self.conv = ShortConv((order + 1) * d_model, kernel_size)
        channels = (order - 1) * d_model
        self.filter = HyenaFilter(
            channels, max_len, filter_dim, emb_dim, sine_freq, decay, shift, train_features
        )
        self.skip = nn.Parameter(torch.randn(order - 1, d_model))
        undecayed(self.skip)
        self.out_proj = nn.Linear(d_model, d_model)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Convolve the new tokens with all before them, filter by filter; keep what each filter reads."""
        past, tail = (
            (x.new_zeros(x.shape[0], self.order - 1, 0, self.d_model), None) if state is None else state
        )
        total = past.shape[2] + x.shape[1]
        self.check_length(total)
        projected, tail = self.conv(self.in_proj(x), tail)
        *gates, z = projected.chunk(self.order + 1, dim=-1)
        filters = self._filters(total)
        z, grown = gates[0] * z, []
        for m, gate in enumerate(gates[1:]):
            grown.append(torch.cat([past[:, m], z], dim=1))
            z = gate * fft_conv(z, filters[m], past[:, m] if state is not None else None)
        return self.out_proj(z), State(torch.stack(grown, dim=1), tail)

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError for more than max_len tokens, for which the filters have no taps."""
        covers("max_len", self.max_len, seq_len)

    def state_size(self, seq_len: int) -> StateSize:
        """Count what each long filter has read, and the short convolution's tail."""
        held = (self.order - 1) * self.d_model * seq_len + self.conv.tail_size()
        return StateSize.read_whole(held, paper=self.d_model * seq_len)

    def _filters(self, length: int) -> Float[Tensor, "M D T"]:
        """Return the filters, with the skip connection as part of the first tap."""
        k = self.filter(length).unflatten(0, (self.order - 1, self.d_model))
        return torch.cat([k[..., :1] + self.skip[..., None], k[..., 1:]], dim=-1)
