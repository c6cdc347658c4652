"""Softmax attention keeps the key and value of every token, a memory that grows with the sequence.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head.
"""

from typing import Any

from torch import Tensor, nn

from zoo.kernels.attention import attention
from zoo.mixers.base import Seq
from zoo.mixers.cache import State, append
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize


class FullAttention(AttentionHeads[State]):
    """Attend by softmax from each token to itself and all before it; subclasses may override `_attend`."""

    small_out = True
    alibi = True

    def __init__(self, **heads: Any) -> None:
        super().__init__(**heads)
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend from the new tokens to all so far; keep every key and value."""
        q, k, v = self.qkv(x, offset=0 if state is None else state.k.shape[2])
        if state is not None:
            k, v = append(state.k, k, dim=2), append(state.v, v, dim=2)
        return self.out_proj(self._attend(x, q, k, v)), State(k, v)

    def _attend(self, x: Seq, q: Tensor, k: Tensor, v: Tensor) -> Seq:
        """Return the heads' outputs side by side."""
        return attention(q, k, v, slopes=self.qkv.slopes).transpose(1, 2).flatten(2)

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of all tokens; the published count has D for each, whatever G is."""
        return StateSize.read_whole(2 * self.qkv.kv_dim * seq_len, paper=2 * self.d_model * seq_len)


class Attention(FullAttention):
    """Attend by softmax to all tokens so far, in heads that may share their keys and values.

    num_kv_heads: num_heads (None) is multi-head attention (Vaswani et al. 2017, arXiv 1706.03762), fewer are
        grouped-query (Ainslie et al. 2023, arXiv 2305.13245), 1 multi-query (Shazeer 2019, arXiv 1911.02150).
    position: none | rope | alibi (`rope_base` and `rope_fraction` act with rope alone).
    bias: biases in both projections, as the reference of the MQAR figures has them.
    dropout: share of the attention weights that training sets to zero (0.1 in that reference).
    """

    def __init__(self, *, dropout: float, **heads: Any) -> None:
        super().__init__(**heads)
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout (={dropout}) must be at least 0 and below 1.")
        self.dropout = nn.Dropout(dropout)

    def _attend(self, x: Seq, q: Tensor, k: Tensor, v: Tensor) -> Seq:
        drop = self.dropout if self.training and self.dropout.p > 0 else None
        return attention(q, k, v, slopes=self.qkv.slopes, drop=drop).transpose(1, 2).flatten(2)
