"""PaTH attention encodes positions by products of Householder-like matrices, one for each token in between.

Yang et al. 2025 (arXiv 2505.16381), Section 3.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head,
K taps of the convolution.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.kernels.path_attention import path_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]  # as changed by the tokens so far
    v: Float[Tensor, "B G S C"]
    tail: Float[Tensor, "B K-1 G*C"]


class PathAttention(Mixer[State]):
    """Attend to keys that each later token changes by a Householder-like matrix of its own:
    the logit of key s for query t is q_t (I - beta_t w_t w_t^T) ... (I - beta_{s+1} w_{s+1} w_{s+1}^T) k_s
    / sqrt C.  For each key head w is a projection through a short convolution and SiLU, of unit length, and
    beta = 2 sigmoid(u x + b).

    The published variant with forget gates, PaTH-FoX, is left out.
    Everything is computed and kept in float32 at least.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, num_kv_heads: int | None, kernel_size: int, bias: bool
    ) -> None:
        super().__init__()
        self.qkv = QueryKeyValue(d_model, num_heads, num_kv_heads, bias=bias)
        self.w_proj = nn.Linear(d_model, self.qkv.kv_dim, bias=False)
        self.conv = ShortConv(self.qkv.kv_dim, kernel_size, bias=False)
        self.beta_proj = nn.Linear(d_model, self.qkv.num_kv_heads)
        self.kernel_size = kernel_size
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend with keys that each new token changes; keep the changed keys, the values and the tail."""
        q, k, v = self.qkv(x)
        w, tail = self.conv(self.w_proj(x), None if state is None else state.tail)
        w = w.unflatten(-1, (self.qkv.num_kv_heads, -1)).transpose(1, 2)
        beta = self.beta_proj(x).mT
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v, w, beta = (part.to(wide) for part in (q, k, v, w, beta))
        if state is not None:
            k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
        with torch.autocast(x.device.type, enabled=False):
            w, beta = F.normalize(F.silu(w), dim=-1), 2 * beta.sigmoid()
            y, k = path_attention(q, k, v, w, beta)
        return self.out_proj(y.transpose(1, 2).flatten(2).to(x.dtype)), State(k, v, tail)

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of all tokens, and the convolution's tail."""
        return StateSize.read_whole(2 * self.qkv.kv_dim * seq_len + self.conv.tail_size())
