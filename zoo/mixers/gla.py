"""Gated linear attention lets each key channel forget at a rate that the token decides.

Yang et al. 2024, "Gated Linear Attention Transformers with Hardware-Efficient Training" (arXiv 2312.06635),
Section 4.

B batch, T time, D model width, H heads, K channels of a query or key, V of a value (H V == D).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize

GAIN = 2**-2.5  # of initial projections, as in fla until d30c0833, and when the paper's numbers were made


class State(NamedTuple):
    kv: Float[Tensor, "B H K V"]


class GatedLinearAttention(Mixer[State]):
    """Mix tokens by linear attention, where the token sets how fast each key channel decays:
    S_t = diag(a_t) S_{t-1} + k_t v_t^T, y_t = q_t^T S_t / sqrt(K), a_t = sigmoid(W2 W1 x_t + b)^(1/tau).

    Each head's y goes through an RMSNorm and is gated by silu.
    feature_dim: K; None: d_model / (2 num_heads).
    gate_rank: rows of W1.  temperature: tau; the larger, the slower all channels forget.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, feature_dim: int | None, gate_rank: int, temperature: float
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        self.num_heads, self.head_dim, self.temperature = num_heads, d_model // num_heads, temperature
        self.feature_dim = d_model // (2 * num_heads) if feature_dim is None else feature_dim
        for name, value in (("feature_dim", self.feature_dim), ("gate_rank", gate_rank)):
            at_least(name, value, 1)
        at_least("temperature", temperature, 1.0)
        keys = num_heads * self.feature_dim
        self.q, self.k = (nn.Linear(d_model, keys, bias=False) for _ in range(2))
        self.v, self.gate = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.decay_in, self.decay_out = nn.Linear(d_model, gate_rank, bias=False), nn.Linear(gate_rank, keys)
        self.norm = nn.RMSNorm(self.head_dim, eps=1e-5)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all projections with GAIN; decays start at sigmoid(0)^(1/temperature)."""
        for proj in (self.q, self.k, self.v, self.gate, self.decay_in, self.decay_out, self.out_proj):
            nn.init.xavier_uniform_(proj.weight, gain=GAIN)
        nn.init.zeros_(self.decay_out.bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run gated linear attention over the new tokens; keep each head's matrix."""
        kv = None if state is None else state.kv
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v, decay = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in (self.q(x), self.k(x), self.v(x), self.decay_out(self.decay_in(x)))
        )
        with torch.autocast(x.device.type, enabled=False):
            log_decay = F.logsigmoid(decay.to(wide)) / self.temperature
            y, kv = gated_linear_attention(q.to(wide) * self.feature_dim**-0.5, k, v, log_decay, kv)
            y = self.norm(y.to(wide))
        y = y.transpose(1, 2).flatten(2).to(x.dtype) * F.silu(self.gate(x))
        return self.out_proj(y), State(kv)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix of key by value channels per head."""
        held = self.num_heads * self.feature_dim * self.head_dim
        return StateSize.read_whole(held, paper=held)
