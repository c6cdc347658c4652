"""Native sparse attention attends to compressed, selected and nearby tokens apart, and sums them by gates.

B batch, T time, S tokens, D model width, H query heads, G key/value heads, C channels per head, N compressed
blocks.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.common.checks import at_least, multiple
from zoo.kernels.attention import attention
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.compressed_attention import (
    block_importance,
    causal_tokens,
    compressed_attention,
    selected_blocks,
)
from zoo.kernels.masked_attention import masked_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.cache import append
from zoo.mixers.positions import check_position, rotate
from zoo.mixers.state import StateSize


class BlockCompression(nn.Module):
    """Compress blocks of `size` tokens, one from every `stride`-th on, to a token each by an MLP (Eq. 7).
    The MLP reads all tokens of a block, each plus an embedding of its place in the block.

    All heads share the MLP.  The paper leaves width and initial values open: here the hidden layer has the
    channels of two heads, the weights keep the size of what they mix, and the embeddings start at 0.
    """

    def __init__(self, head_dim: int, size: int, stride: int) -> None:
        super().__init__()
        self.size, self.stride = size, stride
        self.places = nn.Parameter(torch.zeros(size, head_dim))
        self.inner = nn.Linear(size * head_dim, 2 * head_dim)
        self.outer = nn.Linear(2 * head_dim, head_dim, bias=False)  # a bias on all keys changes no weight
        for layer in (self.inner, self.outer):
            nn.init.kaiming_normal_(layer.weight)

    def count(self, num_tokens: int) -> int:
        """Count the complete blocks among `num_tokens` tokens."""
        return max(0, (num_tokens - self.size) // self.stride + 1)

    def forward(self, x: Float[Tensor, "B G S C"]) -> Float[Tensor, "B G N C"]:
        """Return one token for each complete block; none before the first is complete."""
        if not self.count(x.shape[2]):
            return x[:, :, :0]
        blocks = x.unfold(2, self.size, self.stride).mT + self.places
        return self.outer(F.gelu(self.inner(blocks.flatten(-2))))


Pair = Float[Tensor, "B 2 G S C"]  # keys and values


class State(NamedTuple):
    """Keys are kept as projected and turned when they are used, so that one copy serves all branches.

    The last two fields are None where the branches share their projection, since `tokens` then has them.
    """

    tokens: Pair  # all: any block may be selected later
    compressed: Pair
    to_compress: Pair | None  # from the start of the next compressed block on
    window: Pair | None  # the last window - 1


class NSA(Mixer[State]):
    """Attend to summaries of blocks, to chosen blocks and to the newest tokens, and sum all by gates:
    y = sum over the branches c of sigmoid(W x)_c Attn_c (Yuan et al. 2025, arXiv 2502.11089, Eqs. 5-12).

    compressed: a learned key and value for the `compress_block_size` tokens from every `compress_stride`-th
        on, in view as soon as the last of them has come; before the first, the branch's output is 0.
    selected: the raw tokens, up to the current one, of `top_k` blocks of `block_size`: the `initial_blocks`
        first and `local_blocks` last ones (the current block among them), and those of highest importance,
        which is their share of the compressed weights, summed over the heads that share keys.  Ties go to
        the lowest block.  No gradient passes the choice; the compressed branch trains it.
    sliding: the last `window` tokens, the current one included.
    separate_kv: keys and values projected for each branch (the paper), or once for all (zoology).
    position: none | rope, in the last two branches; compressed blocks know the places inside them.

    The bias of the gate W is ours.  `paper` is zoology's count of what a token reads; the state keeps the
    keys and values of all tokens.  Unlike zoology's mixer no branch sees the future and any length will do.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None,
        compress_block_size: int,
        compress_stride: int,
        block_size: int,
        top_k: int,
        initial_blocks: int,
        local_blocks: int,
        window: int,
        separate_kv: bool,
        position: str,
        rope_base: float,
        rope_fraction: float,
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.kv_dim = self.num_kv_heads * self.head_dim
        self.compress_block_size, self.compress_stride = compress_block_size, compress_stride
        self.block_size, self.top_k, self.window = block_size, top_k, window
        self.initial_blocks, self.local_blocks, self.separate_kv = initial_blocks, local_blocks, separate_kv
        self.turn = (rope_base, rope_fraction) if position == "rope" else None
        self._check()
        check_position(position, self.head_dim, rope_fraction, rope_base)
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.kv_proj = nn.Linear(d_model, (3 if separate_kv else 1) * 2 * self.kv_dim, bias=False)
        self.compress_k = BlockCompression(self.head_dim, compress_block_size, compress_stride)
        self.compress_v = BlockCompression(self.head_dim, compress_block_size, compress_stride)
        self.gate = nn.Linear(d_model, 3 * num_heads)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def _check(self) -> None:
        multiple("num_heads", self.num_heads, "num_kv_heads", self.num_kv_heads)
        multiple("compress_block_size", self.compress_block_size, "compress_stride", self.compress_stride)
        multiple("block_size", self.block_size, "compress_stride", self.compress_stride)
        at_least("initial_blocks", self.initial_blocks, 0)
        at_least("local_blocks", self.local_blocks, 1)
        at_least("top_k", self.top_k, self.initial_blocks + self.local_blocks)
        at_least("window", self.window, 1)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend in the three branches and sum them by the gates; keep what each branch reads later."""
        q = self.q_proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        new, tokens, window = self._cached(self._keys_and_values(x), state)
        blocks = torch.stack([self.compress_k(new[:, 0]), self.compress_v(new[:, 1])], dim=1)
        compressed = blocks if state is None else append(state.compressed, blocks, dim=3)
        first = tokens.shape[3] - x.shape[1]
        after = self._state_after(new, blocks, compressed, tokens, window)
        y, chosen = self._compressed(q, compressed, tokens, first)
        q = self._turned(q, first)
        ys = [y, self._selected(q, tokens, chosen), self._sliding(q, window, first)]
        gates = self.gate(x).sigmoid().unflatten(-1, (-1, 1, 3)).transpose(1, 2)
        y = (gates * torch.stack([y.to(x.dtype) for y in ys], dim=-1)).sum(-1)
        return self.out_proj(y.transpose(1, 2).flatten(2)), after

    def _keys_and_values(self, x: Seq) -> list[Pair]:
        """Return keys and values of the new tokens, for each branch in turn."""
        parts = self.kv_proj(x).unflatten(-1, (-1, 2, self.num_kv_heads, self.head_dim))
        branches = [*parts.permute(2, 0, 3, 4, 1, 5)]
        return branches if self.separate_kv else branches * 3

    def _cached(self, new: list[Pair], state: State | None) -> list[Pair]:
        """Return the tokens waiting for compression, all tokens, and the window's, each with the new ones."""
        if state is None:
            return new
        if state.to_compress is None or state.window is None:
            done = state.compressed.shape[3] * self.compress_stride
            waiting, window = state.tokens[:, :, :, done:], self._last(state.tokens)
        else:
            waiting, window = state.to_compress, state.window
        tokens = append(state.tokens, new[1], dim=3)
        return [torch.cat([waiting, new[0]], dim=3), tokens, torch.cat([window, new[2]], dim=3)]

    def _state_after(self, new: Pair, blocks: Pair, compressed: Pair, tokens: Pair, window: Pair) -> State:
        if not self.separate_kv:
            return State(tokens, compressed, None, None)
        rest = new[:, :, :, blocks.shape[3] * self.compress_stride :]
        return State(tokens, compressed, rest, self._last(window))

    def _last(self, tokens: Pair) -> Pair:
        return tokens[:, :, :, max(0, tokens.shape[3] - self.window + 1) :]

    def _compressed(
        self, q: Tensor, compressed: Pair, tokens: Pair, first: int
    ) -> tuple[Float[Tensor, "B H T C"], Bool[Tensor, "B G T S"]]:
        """Return the outputs, and the tokens that the selected branch sees."""
        size, stride = self.compress_block_size, self.compress_stride
        with torch.autocast(q.device.type, enabled=False):
            y, weights = compressed_attention(q, compressed[:, 0], compressed[:, 1], first, size, stride)
            per_group = weights.detach().unflatten(1, (self.num_kv_heads, -1)).sum(2)
            importance = block_importance(per_group, size, stride, self.block_size, tokens.shape[3])
        counts = (self.top_k, self.initial_blocks, self.local_blocks)
        chosen = selected_blocks(importance, first, self.block_size, *counts)
        return y, causal_tokens(chosen, first, self.block_size)

    def _selected(self, q: Tensor, tokens: Pair, chosen: Bool[Tensor, "B G T S"]) -> Float[Tensor, "B H T C"]:
        k, v, chosen = (
            per_query_head(part, self.num_heads)
            for part in (self._turned(tokens[:, 0], 0), tokens[:, 1], chosen)
        )
        return masked_attention(q, k, v, chosen)

    def _sliding(self, q: Tensor, window: Pair, first: int) -> Float[Tensor, "B H T C"]:
        begin = first + q.shape[2] - window.shape[3]
        return attention(q, self._turned(window[:, 0], begin), window[:, 1], self.window)

    def _turned(self, x: Tensor, offset: int) -> Tensor:
        return x if self.turn is None else rotate(x, offset, *self.turn)

    def state_size(self, seq_len: int) -> StateSize:
        """Count what the branches keep; a step touches what the next token attends to."""
        num_compressed = self.compress_k.count(seq_len)
        whole, open_tokens = divmod(seq_len, self.block_size)
        selected, near = (
            min(self.top_k - 1, whole) * self.block_size + open_tokens,
            min(seq_len, self.window - 1),
        )
        waiting = seq_len - num_compressed * self.compress_stride
        held = seq_len + num_compressed + (waiting + near if self.separate_kv else 0)
        read = seq_len // self.compress_block_size + self.window + self.top_k * self.block_size
        return StateSize(
            paper=2 * self.d_model * read,
            resident=2 * self.kv_dim * held,
            touched=2 * self.kv_dim * (num_compressed + selected + near),
        )
