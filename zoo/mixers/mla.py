"""Multi-head latent attention (MLA) makes the keys and values of all heads from one small latent a token.

DeepSeek-V2 (arXiv 2405.04434), Section 2.1; RMSNorm of the latent as in the authors' code.

B batch, T time, S tokens so far, D model width, H heads, C channels per head, R channels of the latent,
P channels of the shared key that carries the position.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple, positive
from zoo.kernels.attention import attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.cache import append
from zoo.mixers.positions import rotate
from zoo.mixers.state import StateSize


class State(NamedTuple):
    latent: Float[Tensor, "B S R"]  # normalised
    rope_key: Float[Tensor, "B S P"]  # turned to its position


class MLA(Mixer[State]):
    """Attend with keys and values that each head projects from one small latent kept per token:
    head h has keys [K_h c_s, rope_key_s] and values V_h c_s, with c_s the latent of token s.  Its queries
    have C + P channels, and its logits are divided by sqrt(C + P).

    Only c_s and rope_key_s, one for all heads, are kept.  Here they are never expanded: K_h is applied to the
    query and V_h to the weighted sum, so that attention runs on the latents themselves (the paper's
    Appendix C proposes this for decoding).

    kv_rank: R.  rope_dim: P, even; 0: no positions.  The query stays whole: compressing it saves no state.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, kv_rank: int, rope_dim: int, rope_base: float, eps: float
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("kv_rank", kv_rank, 1)
        if rope_dim < 0 or rope_dim % 2:
            raise ValueError(f"rope_dim (={rope_dim}) must be even, channels turn in pairs, and at least 0.")
        at_least("rope_base", rope_base, 1.0)
        positive("eps", eps)
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.kv_rank, self.rope_dim, self.rope_base = kv_rank, rope_dim, rope_base
        self.q_proj = nn.Linear(d_model, num_heads * (self.head_dim + rope_dim), bias=False)
        self.down_proj = nn.Linear(d_model, kv_rank + rope_dim, bias=False)
        self.norm = nn.RMSNorm(kv_rank, eps=eps)
        self.key_proj = nn.Linear(kv_rank, d_model, bias=False)
        self.value_proj = nn.Linear(kv_rank, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend on the latents of all tokens; keep them and the shared rotated keys."""
        offset = 0 if state is None else state.latent.shape[1]
        latent, rope_key = self.down_proj(x).split([self.kv_rank, self.rope_dim], dim=-1)
        wide = torch.promote_types(latent.dtype, torch.float32)
        latent, rope_key = self.norm(latent.to(wide)), self._turned(rope_key[:, None], offset)[:, 0]
        if state is not None:
            latent = append(state.latent, latent, dim=1)
            rope_key = append(state.rope_key, rope_key, dim=1)
        keys = torch.cat([latent, rope_key], dim=-1)[:, None]  # [B 1 S R+P], shared by the heads
        sums = attention(self._queries(x, offset), keys.to(x.dtype), keys.to(x.dtype))[..., : self.kv_rank]
        y = torch.einsum("bhtr,hcr->bthc", sums, self.value_proj.weight.unflatten(0, (self.num_heads, -1)))
        return self.out_proj(y.flatten(2)), State(latent, rope_key)

    def _queries(self, x: Seq, offset: int) -> Float[Tensor, "B H T R+P"]:
        """Return q_h K_h and the turned channels, scaled for sqrt(C + P), not attention's sqrt(R + P)."""
        heads = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q, turning = heads.split([self.head_dim, self.rope_dim], dim=-1)
        q = torch.einsum("bhtc,hcr->bhtr", q, self.key_proj.weight.unflatten(0, (self.num_heads, -1)))
        q = torch.cat([q, self._turned(turning, offset)], dim=-1)
        return q * (q.shape[-1] / (self.head_dim + self.rope_dim)) ** 0.5

    def _turned(self, x: Float[Tensor, "B H T P"], offset: int) -> Float[Tensor, "B H T P"]:
        return rotate(x, offset, self.rope_base) if self.rope_dim else x

    def state_size(self, seq_len: int) -> StateSize:
        """Count a latent and one rotated key per token, for all heads together."""
        return StateSize.read_whole((self.kv_rank + self.rope_dim) * seq_len)
