"""Zamba's shared attention is one set of weights, called at several layers; it also reads the model's input.

Glorioso et al., "Zamba: A Compact 7B SSM Hybrid Model" (arXiv 2405.16712), Section 3.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head
(H * C == 2 D).
"""

from typing import Any, Self

import torch
from torch import nn

from zoo.kernels.attention import attention
from zoo.mixers.base import EMBEDDING, Linked, Links, Seq, Shared
from zoo.mixers.cache import State, append
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize


class SharedAttention(AttentionHeads[State], Shared[State], Linked[State]):
    """Attend over the stream joined with the model's input, with weights that several layers share:
    y = W_call Attention([x, norm(embedding)]), 2 D wide inside; all but W_call is shared by the calls.

    Weights are shared, memory is not: every call keeps keys and values of its own, 2 D wide each.
    Zamba norms the concatenation of both; here the block has normed x, so the embedding has an RMSNorm of
    its own (shared too).  Zamba adds y to the input of the next layer alone, here it joins the stream.  The
    MLP of Zamba's shared block is left to our block.  Other settings as in `zoo.mixers.attention`.
    """

    share_group = "shared_attention"
    reads = (EMBEDDING,)
    alibi, widening = True, 2

    def __init__(self, *, d_model: int, bias: bool, **heads: Any) -> None:
        super().__init__(d_model=d_model, bias=bias, **heads)
        self.norm = nn.RMSNorm(d_model, eps=1e-5)
        self.attn_proj = nn.Linear(2 * d_model, d_model, bias=bias)
        self.out_proj = self.last_projection()

    def share(self, first: Self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Use the shared weights of `first`.  ValueError: the two layers have different settings."""
        self.qkv.check_same(first.qkv)
        self.norm, self.qkv, self.attn_proj = first.norm, first.qkv, first.attn_proj

    def extend_linked(self, x: Seq, state: State | None, read: Links) -> tuple[Seq, State, Links]:
        """Attend to all tokens so far; a layer without an embedding to read takes its own input instead."""
        both = torch.cat([x, self.norm(read.get(EMBEDDING, x)).to(x.dtype)], dim=-1)
        q, k, v = self.qkv(both, offset=0 if state is None else state.k.shape[2])
        if state is not None:
            k, v = append(state.k, k, dim=2), append(state.v, v, dim=2)
        y = attention(q, k, v, slopes=self.qkv.slopes).transpose(1, 2).flatten(2)
        return self.out_proj(self.attn_proj(y)), State(k, v), {}

    def state_size(self, seq_len: int) -> StateSize:
        """Count this call's keys and values of all tokens, twice as wide as the model."""
        return StateSize.read_whole(2 * self.qkv.kv_dim * seq_len)
