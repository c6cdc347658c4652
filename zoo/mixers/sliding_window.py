"""Sliding-window softmax attention lets token t see tokens t-window+1 .. t.

B batch, T time, S tokens kept, D model width, H query heads, G key/value heads, C channels per head.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.kernels.attention import attention
from zoo.mixers.base import Seq
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]  # S = min(offset, window - 1)
    offset: int  # tokens so far: with RoPE, where the next one stands


class SlidingWindow(AttentionHeads[State]):
    """Attend to the newest `window` tokens only.

    This is local attention (Beltagy et al. 2020, arXiv 2004.05150), a layer of Based (arXiv 2402.18668).
    window: keys in view, the token itself included.  The same view elsewhere: block_size = window - 1 in
    zoology, window_size = (window - 1, 0) in flash-attn, window_size = 2 * (window - 1) in the Based code.
    The published count is one token larger than what must be kept: the newest needs no keeping.
    Other settings as in `zoo.mixers.attention`.
    """

    small_out = True
    alibi = True

    def __init__(self, *, window: int, **heads: Any) -> None:
        super().__init__(**heads)
        at_least("window", window, 1)
        self.window = window
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend to the window, and keep the last window - 1 tokens."""
        offset = 0 if state is None else state.offset
        q, k, v = self.qkv(x, offset=offset)
        if state is not None:
            k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
        y = attention(q, k, v, self.window, self.qkv.slopes)
        kept = slice(max(0, k.shape[2] - (self.window - 1)), None)
        return self.out_proj(y.transpose(1, 2).flatten(2)), State(
            k[:, :, kept], v[:, :, kept], offset + x.shape[1]
        )

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of window - 1 tokens; the published count takes `window`."""
        held = 2 * self.qkv.kv_dim * min(seq_len, self.window - 1)
        return StateSize.read_whole(held, paper=2 * self.d_model * min(seq_len, self.window))

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the last token that has each token in its window."""
        return torch.arange(seq_len) + self.window - 1
