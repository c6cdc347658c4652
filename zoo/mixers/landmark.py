"""Landmark attention gives every block of the past a landmark key, by which a token reaches the block.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head, U
complete blocks.
"""

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.grouped_attention import grouped_attention
from zoo.mixers.base import Seq
from zoo.mixers.cache import append
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]
    landmarks: Float[Tensor, "B G U C"]  # keys; a landmark has no value


class Landmark(AttentionHeads[State]):
    """Attend to the token's own block and, through one landmark key per block, to the blocks before it.
    The weights are the grouped softmax (Mohtashami and Jaggi 2023, arXiv 2305.16300, section 3).

    block_size: tokens between two landmarks (50 in the paper).
    top_k: blocks that each token and head retrieves, by the landmarks' scores; null: all, as in training.
        Every weight is differentiable; no gradient passes the choice itself.
    position: none | rope; `num_kv_heads` and `bias` as in `zoo.mixers.attention`.

    The paper writes a landmark token into the text after every block.  Layer by layer this token reads its
    block, and its key represents what it has read; its value is never read.  A mixer's stream has no such
    token, so this layer does the same with its own weights: after every complete block a learned embedding e
    attends to the block's tokens, u = e + W_o Attn(e W_q, block) is normalised as the next layer's input
    would be, and u W_k is the landmark's key.  The key has its block's last position, so that tokens keep
    their positions.  Retrieved blocks keep their positions too; the paper moves them together in texts
    longer than those trained on.
    """

    def __init__(self, *, block_size: int, top_k: int | None, **heads: Any) -> None:
        super().__init__(**heads)
        at_least("block_size", block_size, 2)  # inside a block of one there is nothing to weigh
        if top_k is not None:
            at_least("top_k", top_k, 1)
        self.block_size, self.top_k = block_size, top_k
        self.kv_dim = self.qkv.kv_dim
        self.out_proj = self.last_projection()
        self.landmark = nn.Parameter(torch.randn(self.d_model))

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend by way of the landmarks of complete blocks; keep keys, values and landmarks."""
        q, k, v = self.qkv(x, offset=0 if state is None else state.k.shape[2])
        if state is not None:
            k, v = append(state.k, k, dim=2), append(state.v, v, dim=2)
        landmarks = self._landmarks(k, v, 0 if state is None else state.landmarks.shape[2])
        if state is not None:
            landmarks = append(state.landmarks, landmarks, dim=2)
        with torch.autocast(x.device.type, enabled=False):
            precise = torch.promote_types(q.dtype, torch.float32)
            q, keys, values, marks = (part.to(precise) for part in (q, k, v, landmarks))
            y = grouped_attention(q, keys, values, marks, self.block_size, self.top_k)
        return self.out_proj(y.transpose(1, 2).flatten(2).to(x.dtype)), State(k, v, landmarks)

    def _landmarks(self, k: Tensor, v: Tensor, first: int) -> Float[Tensor, "B G U C"]:
        """Return the keys of the landmarks of the complete blocks from number `first` on."""
        size, count = self.block_size, k.shape[2] // self.block_size - first
        blocks = (part[:, :, first * size : (first + count) * size] for part in (k, v))
        k, v = (per_query_head(part.unflatten(2, (count, size)), self.qkv.num_heads) for part in blocks)
        q = self._projected(self.landmark.expand(1, count, -1), "q", first)
        weights = (k @ q[..., None]).squeeze(-1).mul(self.qkv.head_dim**-0.5).softmax(dim=-1)
        read = (weights[..., None, :] @ v).squeeze(-2)
        token = self.landmark + self.out_proj(read.transpose(1, 2).flatten(2))
        return self._projected(F.rms_norm(token, token.shape[-1:]), "k", first)

    def _projected(
        self, tokens: Float[Tensor, "B U D"], to: Literal["q", "k"], first: int
    ) -> Float[Tensor, "B H U C"]:
        """Return queries or keys of landmarks, each at its block's last position."""
        d_model = tokens.shape[-1]
        rows = slice(0, d_model) if to == "q" else slice(d_model, d_model + self.kv_dim)
        proj, size = self.qkv.proj, self.block_size
        y = F.linear(tokens, proj.weight[rows], None if proj.bias is None else proj.bias[rows])
        y = y.unflatten(-1, (-1, self.qkv.head_dim)).transpose(1, 2)
        if self.qkv.position == "none":
            return y
        return self.qkv.turned(y.repeat_interleave(size, dim=2), first * size)[:, :, size - 1 :: size]

    def state_size(self, seq_len: int) -> StateSize:
        """Count tokens and landmarks; a step reads landmarks, retrieved blocks and the open one."""
        blocks, open_tokens = divmod(seq_len, self.block_size)
        retrieved = blocks if self.top_k is None else min(self.top_k, blocks)
        return StateSize(
            paper=None,
            resident=2 * self.kv_dim * seq_len + self.kv_dim * blocks,
            touched=2 * self.kv_dim * (open_tokens + retrieved * self.block_size) + self.kv_dim * blocks,
        )
