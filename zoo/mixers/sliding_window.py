"""Sliding-window softmax attention: token t sees tokens t-window+1 .. t.

B batch, T time, S keys in view, D model width, H heads, C channels per head (H * C == D).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from zoo.mixers.base import Mixer, Seq
from zoo.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B H S C"]
    v: Float[Tensor, "B H S C"]  # S = min(tokens so far, window - 1)


class SlidingWindow(Mixer[State]):
    def __init__(self, d_model: int, num_heads: int, window: int) -> None:
        super().__init__()
        self.d_model, self.num_heads, self.window = d_model, num_heads, window
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        q, k, v = rearrange(self.qkv_proj(x), "b t (n h c) -> n b h t c", n=3, h=self.num_heads)
        if state is not None:
            k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
        t = torch.arange(k.shape[2], device=x.device)
        age = t[-q.shape[2] :, None] - t
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(age >= 0) & (age < self.window))
        keep = min(k.shape[2], self.window - 1)
        cut = k.shape[2] - keep
        return self.out_proj(rearrange(y, "b h t c -> b t (h c)")), State(k[:, :, cut:], v[:, :, cut:])

    def state_size(self, seq_len: int) -> StateSize:
        held = 2 * self.d_model * min(seq_len, self.window - 1)
        return StateSize(paper=2 * self.d_model * min(seq_len, self.window), resident=held, touched=held)

    def visible(self, seq_len: int) -> Bool[Tensor, "T T"]:
        return super().visible(seq_len).triu(1 - self.window)
