"""Rodimus forgets and writes in gated linear attention by one gate, with a second gate in the exponent.

He et al. 2024, "Rodimus*: Breaking the Accuracy-Efficiency Trade-Off with Efficient Attentions" (arXiv
2410.06577), as the layer of github.com/fla-org/flash-linear-attention has it, without its window attention.

B batch, T time, D model width, E = expand * D inner width, N key channels, R rank, K taps.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize

FAR = -15.0  # below it log softplus(u) is u


class State(NamedTuple):
    kv: Float[Tensor, "B 1 N E"]
    tail: Float[Tensor, "B K-1 E"]


class Rodimus(Mixer[State]):
    """Run gated linear attention whose forgetting and writing share a gate g and an exponent tau:
    S_t = diag(exp(-tau_t g_t)) S_{t-1} + (g_t^tau_t * k_t) v_t^T,  y_t = S_t^T q_t / sqrt N + w * c_t.

    u = x W, c = SiLU(conv(u)); q = c W, k = c W over its norm, g = softplus(c W + b), tau = sigmoid(c W + b);
    v = sigmoid(u W_1 W_2 + b) * u.  There is one head.  The output is RMSNorm(y * SiLU(x W)) W.

    feature_dim: N, 64 as published.  gate_rank: R; None: D / 64, at least 16.
    """

    def __init__(
        self, *, d_model: int, feature_dim: int, expand: int, kernel_size: int, gate_rank: int | None
    ) -> None:
        super().__init__()
        rank = max(d_model // 64, 16) if gate_rank is None else gate_rank
        for name, value in (("feature_dim", feature_dim), ("expand", expand), ("gate_rank", rank)):
            at_least(name, value, 1)
        self.feature_dim, self.d_inner = feature_dim, expand * d_model
        self.in_proj = nn.Linear(d_model, 2 * self.d_inner, bias=False)
        self.conv = ShortConv(self.d_inner, kernel_size)
        self.qk = nn.Linear(self.d_inner, 2 * feature_dim, bias=False)
        self.gates = nn.Linear(self.d_inner, 2 * feature_dim)
        self.value_down = nn.Linear(self.d_inner, rank, bias=False)
        self.value_up = nn.Linear(rank, self.d_inner)
        self.skip = nn.Parameter(torch.ones(self.d_inner))
        self.norm = nn.RMSNorm(self.d_inner, eps=1e-5)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Forget and write channel by channel; keep the matrix and the tail."""
        kv, tail = (None, None) if state is None else state
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        mixed, tail = self.conv(u, tail)
        mixed = F.silu(mixed)
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k = self.qk(mixed).to(wide).chunk(2, dim=-1)
        g, tau = self.gates(mixed).to(wide).chunk(2, dim=-1)
        tau = tau.sigmoid()
        log_g = torch.where(g < FAR, g, F.softplus(g.clamp(min=FAR)).log())
        k = F.normalize(k, dim=-1) * (tau * log_g).exp()
        v = self.value_up(self.value_down(u)).sigmoid() * u
        q, k, v, log_decay = (p[:, None] for p in (q * self.feature_dim**-0.5, k, v, -tau * log_g.exp()))
        y, kv = gated_linear_attention(q, k, v, log_decay, kv)
        y = self.norm((y[:, 0].to(mixed.dtype) + self.skip * mixed) * F.silu(gate))
        return self.out_proj(y.to(x.dtype)), State(kv, tail)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix, and the tail."""
        return StateSize.read_whole(self.feature_dim * self.d_inner + self.conv.tail_size())
