"""Lightning Attention is linear attention whose heads forget at fixed rates, the slower the higher the layer.

MiniMax et al. 2025, "MiniMax-01: Scaling Foundation Models with Lightning Attention" (arXiv 2501.08313),
Section 2.2; the layer and its rates are those of the released model.

B batch, T time, D model width, H heads, C channels of a query or key, V of a value.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple, one_of
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize
from zoo.mixers.token_shift import Depth

LEAST = 1e-5  # share of its rate at which a head of the highest layer still forgets


class State(NamedTuple):
    kv: Float[Tensor, "B H C V"]


class LightningAttention(Mixer[State]):
    """Run linear attention whose heads forget at fixed rates, which fall from layer to layer:
    S_t = exp(-s_h) S_{t-1} + k_t v_t^T,  y_t = S_t^T q_t,  with q, k, v = SiLU(x W).

    s_h = 2^(-8 h / H) (1 - layer / (n_layers - 1) + 1e-5), h = 1 .. H, as ALiBi's slopes; a single layer has
    the share of the lowest.  All heads' y pass one RMSNorm and a sigmoid gate.
    head_dim: C; None: d_model / num_heads.  value_dim: V; None: C, as published.
    activation: silu acts on q, k and v.  Ours: keys (on q and k alone), values (on v alone), none.
    gate: False leaves the gate out (ours).
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        head_dim: int | None,
        value_dim: int | None,
        activation: str,
        gate: bool,
        layer: int,
        n_layers: int,
    ) -> None:
        super().__init__()
        at_least("num_heads", num_heads, 1)
        if head_dim is None:
            multiple("d_model", d_model, "num_heads", num_heads)
            head_dim = d_model // num_heads
        at_least("head_dim", head_dim, 1)
        value_dim = head_dim if value_dim is None else value_dim
        at_least("value_dim", value_dim, 1)
        one_of("activation", activation, ("silu", "keys", "values", "none"))
        self.num_heads, self.head_dim, self.value_dim = num_heads, head_dim, value_dim
        self.activation = activation
        self.share = 1 - Depth.of(layer, n_layers).late + LEAST
        inner = num_heads * value_dim
        self.qkv = nn.Linear(d_model, 2 * num_heads * head_dim + inner, bias=False)
        self.norm = nn.RMSNorm(inner, eps=1e-6)
        self.gate = nn.Linear(d_model, inner, bias=False) if gate else None
        self.out_proj = nn.Linear(inner, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run linear attention with each head's fixed decay; keep its matrix."""
        (q, k, v), wide = self._heads(x), torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            log_decay = self._log_decay(q.new_empty(0, dtype=wide)).expand(q.shape[:-1])
            y, kv = gated_linear_attention(q, k, v, log_decay, None if state is None else state.kv)
            y = self.norm(y.to(wide).transpose(1, 2).flatten(2)).to(x.dtype)
        return self.out_proj(y if self.gate is None else y * self.gate(x).sigmoid()), State(kv)

    def _heads(
        self, x: Seq
    ) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H T C"], Float[Tensor, "B H T V"]]:
        keys, values = self.num_heads * self.head_dim, self.num_heads * self.value_dim
        q, k, v = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in self.qkv(x).split([keys, keys, values], dim=-1)
        )
        if self.activation in ("silu", "keys"):
            q, k = F.silu(q), F.silu(k)
        if self.activation in ("silu", "values"):
            v = F.silu(v)
        return q, k, v

    def _log_decay(self, like: Tensor) -> Float[Tensor, "H 1"]:
        heads = torch.arange(1, self.num_heads + 1, dtype=like.dtype, device=like.device)
        return -self.share * torch.exp2(-8 * heads / self.num_heads)[:, None]

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head, square as published."""
        held = self.num_heads * self.head_dim * self.value_dim
        return StateSize.read_whole(held, paper=held)
