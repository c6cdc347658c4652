"""Log-linear Mamba-2 cuts the past into power-of-two pieces, each with a state and a weight of its own.

Guo et al. 2025, "Log-Linear Attention" (arXiv 2506.04761), over Mamba-2 (arXiv 2405.21060).  After n tokens
there is one state for each digit 1 of the binary number n: the memory grows with log n, not at every token,
and falls back to one state at each power of two.

B batch, T time, D model width, E = expand * D inner width, H heads of P channels (E = H P), N state,
S pieces of the past, L levels, K taps, C = E + 2 N channels of the convolution.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, covers
from zoo.kernels.log_linear_attention import log_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.heads import heads_of
from zoo.mixers.mamba import first_dt_bias
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed


class State(NamedTuple):
    h: Float[Tensor, "B S H N P"]  # from the smallest and newest piece
    tail: Float[Tensor, "B K-1 C"]
    offset: int


class LogLinearMamba2(Mixer[State]):
    """Run Mamba-2 with a state for each piece of the past, whose weight the token sets, per head:
    the output from the piece at level l is scaled by softplus(level_weight_l (x W)_l).

    Level 0 is the token itself, level l > 0 a piece of 2^(l-1) tokens.  As in the authors' code all heads
    share the input and output maps B and C, and the gate comes before the norm.

    max_len: longest sequence; it sets how many levels have weights.  head_dim: P; None: 64, or E where that
    is less.  n_layers: as in Mamba.  A_log, D, dt_bias and level_weight carry `no_weight_decay = True`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_state: int,
        max_len: int,
        expand: int,
        kernel_size: int,
        head_dim: int | None,
        n_layers: int,
    ) -> None:
        super().__init__()
        settings = {"d_state": d_state, "max_len": max_len, "expand": expand, "n_layers": n_layers}
        for name, value in settings.items():
            at_least(name, value, 1)
        self.d_state, self.max_len, self.kernel_size = d_state, max_len, kernel_size
        self.d_inner = expand * d_model
        self.num_heads, self.head_dim = heads_of("expand * d_model", self.d_inner, head_dim)
        self.num_levels = (max_len - 1).bit_length() + 1
        channels = self.d_inner + 2 * d_state
        self.sizes = [self.d_inner, channels, self.num_heads, self.num_heads * self.num_levels]
        self.in_proj = nn.Linear(d_model, sum(self.sizes), bias=False)
        self.conv = ShortConv(channels, kernel_size)
        self.dt_bias = nn.Parameter(first_dt_bias(self.num_heads))
        self.A_log = nn.Parameter(torch.empty(self.num_heads).uniform_(1, 16).log())
        self.D = nn.Parameter(torch.ones(self.num_heads))
        self.level_weight = nn.Parameter(torch.ones(self.num_heads, self.num_levels))
        self.norm = nn.RMSNorm(self.d_inner, eps=1e-5)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)
        with torch.no_grad():
            self.out_proj.weight.div_(math.sqrt(n_layers))
        undecayed(self.A_log, self.D, self.dt_bias, self.level_weight)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Scan the new tokens into pieces of powers of two; keep a state a piece and the tail."""
        h, tail, offset = (None, None, 0) if state is None else state
        self.check_length(offset + x.shape[1])
        gate, u, dt, levels = self.in_proj(x).split(self.sizes, dim=-1)
        u, tail = self.conv(u, tail)
        with torch.autocast(x.device.type, enabled=False):
            wide = torch.promote_types(x.dtype, torch.float32)
            y, h = self._scan(F.silu(u).to(wide), dt.to(wide), levels.to(wide), h, offset)
        y = self.norm(y.to(self.norm.weight.dtype) * F.silu(gate))
        return self.out_proj(y.to(x.dtype)), State(h, tail, offset + x.shape[1])

    def _scan(
        self, u: Tensor, dt: Tensor, levels: Tensor, h: Tensor | None, offset: int
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "B S H N P"]]:
        v, B, C = u.split([self.d_inner, self.d_state, self.d_state], dim=-1)
        v = v.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        B, C = (s[:, None].expand(-1, self.num_heads, -1, -1) for s in (B, C))
        dt = F.softplus(dt + self.dt_bias).mT
        scales = F.softplus(self.level_weight * levels.unflatten(-1, (self.num_heads, -1))).transpose(1, 2)
        decay = -self.A_log.exp()[:, None] * dt
        y, h = log_linear_attention(C, B, dt[..., None] * v, decay, scales, h, offset)
        return (y + self.D[:, None, None] * v).transpose(1, 2).flatten(2), h

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError for more than max_len tokens, which would need a level without weights."""
        covers("max_len", self.max_len, seq_len)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a state for each binary digit 1 of the number of tokens, and the tail."""
        return StateSize.read_whole(self.d_inner * self.d_state * seq_len.bit_count() + self.conv.tail_size())
