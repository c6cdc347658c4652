"""Mamba-2 gives each head one decay rate, which makes its state space gated linear attention.

Dao and Gu, "Transformers are SSMs" (arXiv 2405.21060), Sections 6 and 7, with the initial values of the
authors' code.

B batch, T time, D model width, E = expand * D inner width, H heads of P channels (E = H P), N state,
G groups of heads that share their input and output maps, K taps, C = E + 2 G N channels of the convolution.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.heads import heads_of
from zoo.mixers.mamba import first_dt_bias
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed


class State(NamedTuple):
    h: Float[Tensor, "B H N P"]
    tail: Float[Tensor, "B K-1 C"]


class Mamba2(Mixer[State]):
    """Mix tokens with a matrix state per head that decays at a rate set by the token:
    h_t = exp(dt_t A) h_{t-1} + dt_t B_t x_t^T and y_t = C_t h_t + D x_t, dt and A one number per head.

    B is the key, C the query and dt x the value of gated linear attention.  The convolution runs over x, B
    and C; the gate comes before the norm, which is over the channels of a group.

    head_dim: P; None: 64, or E where that is less.  num_groups: G.  n_layers: as in Mamba.
    A_log, D and dt_bias carry `no_weight_decay = True`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_state: int,
        expand: int,
        kernel_size: int,
        head_dim: int | None,
        num_groups: int,
        n_layers: int,
    ) -> None:
        super().__init__()
        for name, value in (("d_state", d_state), ("expand", expand), ("n_layers", n_layers)):
            at_least(name, value, 1)
        self.d_model, self.d_state, self.n_layers = d_model, d_state, n_layers
        self.d_inner = expand * d_model
        self.num_heads, self.head_dim = heads_of("expand * d_model", self.d_inner, head_dim)
        self.num_groups = num_groups
        multiple("the number of heads", self.num_heads, "num_groups", num_groups)
        self.channels = self.d_inner + 2 * num_groups * d_state
        self.in_proj = nn.Linear(d_model, self.d_inner + self.channels + self.num_heads, bias=False)
        self.conv = ShortConv(self.channels, kernel_size)
        self.dt_bias, self.A_log, self.D = (nn.Parameter(torch.empty(self.num_heads)) for _ in range(3))
        self.norm_weight = nn.Parameter(torch.ones(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw step sizes as Mamba does, and A from U(-16, -1)."""
        self.dt_bias.copy_(first_dt_bias(self.num_heads))
        self.A_log.uniform_(1, 16).log_()
        nn.init.ones_(self.D)
        self.out_proj.weight.div_(math.sqrt(self.n_layers))
        undecayed(self.A_log, self.D, self.dt_bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Scan the new tokens as gated linear attention; keep each head's matrix and the tail."""
        h, tail = (None, None) if state is None else state
        gate, u, dt = self.in_proj(x).split([self.d_inner, self.channels, self.num_heads], dim=-1)
        u, tail = self.conv(u, tail)
        with torch.autocast(x.device.type, enabled=False):
            y, h = self._scan(F.silu(u), dt.to(torch.promote_types(x.dtype, torch.float32)), h)
        y = (y.to(gate.dtype) * F.silu(gate)).unflatten(-1, (self.num_groups, -1))
        y = F.rms_norm(y, y.shape[-1:], eps=1e-5).flatten(2) * self.norm_weight
        return self.out_proj(y), State(h, tail)

    def _scan(
        self, u: Float[Tensor, "B T C"], dt: Float[Tensor, "B T H"], h: Tensor | None
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "B H N P"]]:
        maps = self.num_groups * self.d_state
        u, B, C = u.split([self.d_inner, maps, maps], dim=-1)
        u = u.to(dt.dtype).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        groups = (s.unflatten(-1, (self.num_groups, -1)).transpose(1, 2) for s in (B, C))
        B, C = (per_query_head(s, self.num_heads) for s in groups)
        dt = F.softplus(dt + self.dt_bias).mT
        y, h = gated_linear_attention(C, B, dt[..., None] * u, -self.A_log.exp()[:, None] * dt, h)
        return (y + self.D[:, None, None] * u).transpose(1, 2).flatten(2), h

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head, and the tail; the published count has expand = 2 and no tail."""
        held = self.d_inner * self.d_state + self.conv.tail_size()
        return StateSize.read_whole(held, paper=2 * self.d_model * self.d_state)
