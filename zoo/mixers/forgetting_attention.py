"""Forgetting attention (FoX) adds to softmax attention a forget gate that each token sets for all before it.

Lin et al. 2025, "Forgetting Transformer" (arXiv 2503.02130), Section 3.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.kernels.forgetting_attention import forgetting_attention
from zoo.mixers.base import Seq
from zoo.mixers.cache import append
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]
    decay: Float[Tensor, "B H S"]  # sum of the log gates of the tokens after this one


class ForgettingAttention(AttentionHeads[State]):
    """Attend by softmax, with the log forget gates of all tokens after a key added to its logit:
    the logit of key s for query t is q_t k_s / sqrt C + sum over j = s+1 .. t of log f_j, with a gate
    f_j = sigmoid(w x_j + b) for each query head.

    The paper's model of the LLaMA kind, without its "Pro" additions (norms of queries and keys, an output
    gate, token shifts).  b starts at `gate_bias`; the paper's 0 halves all older weights with every token.
    position: none (the paper) | rope.  Gates and logits are computed in float32 at least.
    """

    def __init__(self, *, d_model: int, num_heads: int, gate_bias: float, **heads: Any) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, **heads)
        self.gate = nn.Linear(d_model, num_heads)
        nn.init.constant_(self.gate.bias, gate_bias)
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend with the sum of log gates on each logit; keep keys, values and those sums up to now."""
        q, k, v = self.qkv(x, offset=0 if state is None else state.k.shape[2])
        wide = torch.promote_types(x.dtype, torch.float32)
        log_gate = F.logsigmoid(self.gate(x).to(wide)).mT
        decay = log_gate[:, :, :0]
        if state is not None:
            k, v, decay = append(state.k, k, dim=2), append(state.v, v, dim=2), state.decay
        with torch.autocast(x.device.type, enabled=False):
            y, decay = forgetting_attention(q.to(wide), k.to(wide), v.to(wide), log_gate, decay)
        y = y.transpose(1, 2).flatten(2).to(x.dtype)
        return self.out_proj(y), State(k, v, decay)

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys, values and a sum of log gates a query head, for every token."""
        return StateSize.read_whole((2 * self.qkv.kv_dim + self.num_heads) * seq_len)
