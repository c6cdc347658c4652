"""ABC attends to slots in place of tokens, which bounds the memory of softmax attention.

Peng et al. 2021, "ABC: Attention with Bounded-memory Control" (arXiv 2110.02488).

B batch, T time, D model width, H heads, C channels per head (H C == D), M slots per head.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.gated_slot_attention import gated_slot_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.state import StateSize

MOST = 32.0  # largest absolute exponent of a weight


class State(NamedTuple):
    keys: Float[Tensor, "B H M C"]
    values: Float[Tensor, "B H M C"]
    log_z: Float[Tensor, "B H M"]  # log of the sum of a slot's weights


class BoundedMemoryAttention(Mixer[State]):
    """Attend to a fixed number of slots per head, each a weighted mean of the keys and values so far:
    slot m holds sum_i e^(s_im) k_i / sum_i e^(s_im), and the same of v; y = softmax attention over slots.

    s = x W, clamped to [-32, 32] as in fla.  num_slots: M, at least 2; None: C.
    Left out: the rotary positions and the output gate of fla's layer, which the paper does not have.
    """

    def __init__(self, *, d_model: int, num_heads: int, num_slots: int | None, bias: bool) -> None:
        super().__init__()
        self.qkv = QueryKeyValue(d_model, num_heads, bias=bias)
        self.num_heads, self.head_dim = num_heads, self.qkv.head_dim
        self.num_slots = self.head_dim if num_slots is None else num_slots
        at_least("num_slots", self.num_slots, 2)  # a softmax over one slot reads no key
        self.control = nn.Linear(d_model, num_heads * self.num_slots, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Add the new tokens to the slots' means and attend to the slots; keep means and log weights."""
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (part.to(wide) for part in self.qkv(x))
        s = self.control(x).to(wide).unflatten(-1, (self.num_heads, -1)).transpose(1, 2).clamp(-MOST, MOST)
        if state is None:
            log_z = s.logcumsumexp(-2)
            before, slots = torch.cat([log_z[..., :1, :], log_z[..., :-1, :]], dim=-2), None
        else:
            log_z = torch.cat([state.log_z[..., None, :], s], dim=-2).logcumsumexp(-2)
            before, log_z, slots = log_z[..., :-1, :], log_z[..., 1:, :], (state.keys, state.values)
        with torch.autocast(x.device.type, enabled=False):
            fade = (before - log_z).clamp(max=0)
            y, slots = gated_slot_attention(q * self.head_dim**-0.5, k, v, (s - log_z).exp(), fade, slots)
        y = y.transpose(1, 2).flatten(2).to(x.dtype)
        return self.out_proj(y), State(*slots, log_z[..., -1, :])

    def state_size(self, seq_len: int) -> StateSize:
        """Count a key, a value and a weight for each slot of each head."""
        return StateSize.read_whole(self.num_heads * self.num_slots * (2 * self.head_dim + 1))
