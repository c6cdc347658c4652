"""Kimi delta attention gives the gated delta rule a decay for each channel of the keys.

Kimi Team 2025, "Kimi Linear: An Expressive, Efficient Attention Architecture" (arXiv 2510.26692), Eq. 1 and
its parameterization; initial values of github.com/fla-org/flash-linear-attention, fla/layers/kda.py.

B batch, T time, D model width, H heads, C channels of a head, E = H * C, K taps of the convolution.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.dplr_delta_rule import dplr_delta_rule
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import ConvolvedHeads, unit
from zoo.mixers.mamba import first_dt_bias
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed

A_MIN, A_MAX = 1.0, 16.0


class State(NamedTuple):
    S: Float[Tensor, "B H C C"]
    tail: Float[Tensor, "B K-1 3*E"]  # last inputs of the convolution


class KimiDeltaAttention(Mixer[State]):
    """Decay each key channel of a head's matrix, then move what it returns for the key towards the value:
    S_t = (I - beta_t k_t k_t^T) diag(alpha_t) S_{t-1} + beta_t k_t v_t^T,  y_t = S_t^T q_t / sqrt C.

    q, k and v are SiLU(conv(x W)), q and k scaled to norm 1.  There is one beta = sigmoid(x W) per head, and
    one decay log alpha = -exp(A_log) softplus(x W_down W_up + dt_bias) per channel.  Each head's output
    passes an RMSNorm and a sigmoid gate, which is made through a width of C, like the decay.
    head_dim: C; None is d_model / num_heads.
    A_log and dt_bias carry `no_weight_decay = True`, which training reads.
    """

    def __init__(self, *, d_model: int, num_heads: int, head_dim: int | None, kernel_size: int) -> None:
        super().__init__()
        if head_dim is None:
            multiple("d_model", d_model, "num_heads", num_heads)
            head_dim = d_model // num_heads
        at_least("num_heads", num_heads, 1)
        at_least("head_dim", head_dim, 1)
        self.num_heads, self.head_dim, self.kernel_size = num_heads, head_dim, kernel_size
        inner = num_heads * head_dim
        self.qkv = ConvolvedHeads(d_model, num_heads, [head_dim] * 3, kernel_size)
        self.beta = nn.Linear(d_model, num_heads, bias=False)
        self.decay_down = nn.Linear(d_model, head_dim, bias=False)
        self.decay_up = nn.Linear(head_dim, inner, bias=False)
        self.gate_down = nn.Linear(d_model, head_dim, bias=False)
        self.gate_up = nn.Linear(head_dim, inner)
        self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(A_MIN, A_MAX).log())
        self.dt_bias = nn.Parameter(first_dt_bias(inner))
        self.norm = nn.RMSNorm(head_dim, eps=1e-5)
        self.out_proj = nn.Linear(inner, d_model, bias=False)
        undecayed(self.A_log, self.dt_bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Decay each key channel, then write by the delta rule; keep the matrix and the tail."""
        S, tail = (None, None) if state is None else state
        q, k, v, log_alpha, tail = self._inputs(x, tail)
        written = torch.sigmoid(self.beta(x)).transpose(1, 2)[..., None] * k
        y, S = dplr_delta_rule(q, written, v, log_alpha.exp() * k, -written, log_alpha, S)
        return self._output(y, x), State(S, tail)

    def _inputs(self, x: Seq, tail: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return scaled queries, keys, values and log decays [B H T C], and the convolution's tail."""
        (q, k, v), after = self.qkv(x, tail)
        return unit(q) * self.head_dim**-0.5, unit(k), v, self._log_decay(x), after

    def _output(self, y: Float[Tensor, "B H T C"], x: Seq) -> Seq:
        gate = torch.sigmoid(self.gate_up(self.gate_down(x)))
        y = self.norm(y.to(self.norm.weight.dtype)).transpose(1, 2).flatten(2) * gate
        return self.out_proj(y.to(x.dtype))

    def _log_decay(self, x: Seq) -> Float[Tensor, "B H T C"]:
        step = F.softplus(self.decay_up(self.decay_down(x)) + self.dt_bias)
        step = step.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
        return -self.A_log.exp()[:, None, None] * step

    def state_size(self, seq_len: int) -> StateSize:
        """Count one matrix per head, and the tail, which the published count leaves out."""
        memory = self.num_heads * self.head_dim**2
        return StateSize.read_whole(memory + self.qkv.conv.tail_size(), paper=memory)
