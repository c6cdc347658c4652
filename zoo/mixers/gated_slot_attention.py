"""Gated slot attention bounds the memory of softmax attention by slots that forget at rates set by the token.

Zhang et al. 2024, "Gated Slot Attention for Efficient Linear-Time Sequence Modeling" (arXiv 2409.07146),
Section 3.

B batch, T time, D model width, H heads, C channels per head (H C == D), M slots per head.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.gated_slot_attention import gated_slot_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize


class State(NamedTuple):
    keys: Float[Tensor, "B H M C"]
    values: Float[Tensor, "B H M C"]


class GatedSlotAttention(Mixer[State]):
    """Attend to a fixed number of slots per head, each a decaying mean of the keys and values so far:
    a slot keeps a_t of its key and value and takes 1 - a_t of the token's, a_t = sigmoid(W x_t)^(1/tau);
    y_t is the softmax attention of q_t over the slots' keys and values, without a scale.

    Queries, keys, values and y pass silu; y then passes one RMSNorm (all channels), as in the authors' code.
    num_slots: M, at least 2; None: C.  temperature: tau; the larger, the slower all slots forget.
    """

    def __init__(self, *, d_model: int, num_heads: int, num_slots: int | None, temperature: float) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        self.num_heads, self.head_dim, self.temperature = num_heads, d_model // num_heads, temperature
        self.num_slots = self.head_dim if num_slots is None else num_slots
        at_least("num_slots", self.num_slots, 2)  # a softmax over one slot reads no key
        at_least("temperature", temperature, 1.0)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.keep = nn.Linear(d_model, num_heads * self.num_slots, bias=False)
        self.norm = nn.RMSNorm(d_model, eps=1e-5)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Update the slots token by token and attend to them; keep their keys and values."""
        q, k, v = self._activated(x)
        with torch.autocast(x.device.type, enabled=False):
            log_decay = self._log_decay(x)
            write = -torch.expm1(log_decay)
            y, slots = gated_slot_attention(q, k, v, write, log_decay, state)
            y = self.norm(F.silu(y.transpose(1, 2).flatten(2)))
        return self.out_proj(y.to(x.dtype)), State(*slots)

    def _activated(self, x: Seq) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values [B H T C], in float32 at least."""
        q, k, v = (self._heads(F.silu(s)) for s in _wide(self.qkv(x)).chunk(3, dim=-1))
        return q, k, v

    def _log_decay(self, x: Seq) -> Float[Tensor, "B H T M"]:
        return F.logsigmoid(self._heads(_wide(self.keep(x)))) / self.temperature

    def _heads(self, x: Float[Tensor, "B T H*X"]) -> Float[Tensor, "B H T X"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a key and a value for each slot of each head."""
        held = 2 * self.num_heads * self.num_slots * self.head_dim
        return StateSize.read_whole(held, paper=held)


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
