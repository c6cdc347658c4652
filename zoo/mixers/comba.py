"""Comba gives the gated delta rule a learned strength of feedback, and takes a share of the key off queries.

Hu et al. 2025, "Comba: Improving Bilinear RNNs with Closed-loop Control" (arXiv 2506.02475).

B batch, T time, D model width, H heads, C channels of a query or key (H * C == D), V = expand_v * C channels
of a value, K taps of the convolution.
"""

import torch
from torch import nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.dplr_delta_rule import dplr_delta_rule
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import ConvolvedHeads, Forgetting, unit
from zoo.mixers.gated_deltanet import State
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed


class Comba(Mixer[State]):
    """Decay a matrix per head, subtract a learned share of what it returned for the key, add the value:
    S_t = (alpha_t I - b beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T,  y_t = S_t^T (q_t - d k_t) / sqrt C.

    The feedback reads the memory before the decay; in Gated DeltaNet it reads after.  b in (0, 1) and d are
    learned, one per head; q, k, v, beta and alpha are as in Gated DeltaNet; each head's output passes an
    RMSNorm and a sigmoid gate.  q and k have norm 1 before they are scaled.  (The authors' layer scales b k
    and q - d b k to norm 1 again, so that b has no effect on the feedback.)

    correction: the initial d.  The authors name 1 for large models and 0.02 for small ones.
    b and d carry `no_weight_decay = True`, which training reads.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, expand_v: int, kernel_size: int, correction: float
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("expand_v", expand_v, 1)
        at_least("correction", correction, 0)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.expand_v, self.kernel_size, self.value_dim = expand_v, kernel_size, expand_v * self.head_dim
        inner = num_heads * self.value_dim
        self.qkv = ConvolvedHeads(
            d_model, num_heads, [self.head_dim, self.head_dim, self.value_dim], kernel_size
        )
        self.beta = nn.Linear(d_model, num_heads, bias=False)
        self.forget = Forgetting(d_model, num_heads)
        self.feedback = nn.Parameter(torch.ones(num_heads))  # b before its sigmoid
        self.correction = nn.Parameter(torch.full((num_heads,), float(correction)))
        self.norm = nn.RMSNorm(self.value_dim, eps=1e-5)
        self.gate = nn.Linear(d_model, inner, bias=False)
        self.out_proj = nn.Linear(inner, d_model, bias=False)
        undecayed(self.feedback, self.correction)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run the rule with feedback over the new tokens; keep the matrix and the convolution's tail."""
        memory, tail = (None, None) if state is None else state
        (q, k, v), tail = self.qkv(x, tail)
        q, k = unit(q), unit(k)
        q = (q - self.correction[:, None, None] * k) * self.head_dim**-0.5
        written = self.beta(x).sigmoid().transpose(1, 2)[..., None] * k
        returned = -self.feedback.sigmoid()[:, None, None] * written
        log_alpha = self.forget(x)[..., None].expand_as(k)
        y, memory = dplr_delta_rule(q, written, v, k, returned, log_alpha, memory)
        y = self.norm(y.to(self.norm.weight.dtype)).transpose(1, 2).flatten(2)
        return self.out_proj(y.to(x.dtype) * self.gate(x).sigmoid()), State(memory, tail)

    def state_size(self, seq_len: int) -> StateSize:
        """Count one matrix per head, and the convolution's tail."""
        del seq_len
        held = self.num_heads * self.head_dim * self.value_dim + self.qkv.conv.tail_size()
        return StateSize.read_whole(held)
