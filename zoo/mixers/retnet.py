"""Retention is linear attention with rotated queries and keys, whose heads forget at fixed rates.

Sun et al. 2023, "Retentive Network" (arXiv 2307.08621), Eqs. 5 to 8.

B batch, T time, D model width, H heads, K channels of a query or key, V of a value (H V = expand * D).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.positions import check_position, rotate
from zoo.mixers.state import StateSize

GAIN = 2**-2.5  # of the initial projections: the paper's, and fla's until d30c0833 (March 2025)


class State(NamedTuple):
    kv: Float[Tensor, "B H K V"]
    offset: int  # tokens so far, for the rotation


class RetNet(Mixer[State]):
    """Run linear attention on rotated queries and keys, with a fixed rate of forgetting per head:
    S_t = gamma_h S_{t-1} + k_t v_t^T, y_t = q_t^T S_t / sqrt(K), gamma_h = 1 - 2^(-5-h), h = 0 .. H-1.

    Each head's y is normalised (RMS without weights, as in the authors' later code; the paper has a
    GroupNorm) and gated by silu.  The rotation is RoPE, whose rates differ a little from the authors'.

    feature_dim: K; None: d_model / num_heads.  expand: value channels over d_model.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, feature_dim: int | None, expand: int, rope_base: float
    ) -> None:
        super().__init__()
        at_least("expand", expand, 1)
        multiple("d_model", d_model, "num_heads", num_heads)
        self.num_heads, self.head_dim, self.rope_base = num_heads, expand * d_model // num_heads, rope_base
        self.feature_dim = d_model // num_heads if feature_dim is None else feature_dim
        check_position("rope", self.feature_dim, 1.0, rope_base)
        self.q, self.k = (nn.Linear(d_model, num_heads * self.feature_dim, bias=False) for _ in range(2))
        self.v, self.gate = (nn.Linear(d_model, expand * d_model, bias=False) for _ in range(2))
        self.out_proj = nn.Linear(expand * d_model, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the projections with GAIN, the output's without."""
        for proj in (self.q, self.k, self.v, self.gate):
            nn.init.xavier_uniform_(proj.weight, gain=GAIN)
        nn.init.xavier_uniform_(self.out_proj.weight)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Rotate, then run linear attention with fixed decays; keep each head's matrix and the position."""
        kv, offset = (None, 0) if state is None else state
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (
            proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for proj in (self.q, self.k, self.v)
        )
        with torch.autocast(x.device.type, enabled=False):
            q, k = (rotate(s.to(wide), offset, self.rope_base) for s in (q, k))
            log_decay = self._log_decay(q).expand(q.shape[:-1])
            y, kv = gated_linear_attention(q * self.feature_dim**-0.5, k, v, log_decay, kv)
            y = F.rms_norm(y.to(wide), y.shape[-1:], eps=1e-5)
        y = y.transpose(1, 2).flatten(2).to(x.dtype) * F.silu(self.gate(x))
        return self.out_proj(y), State(kv, offset + x.shape[1])

    def _log_decay(self, like: Tensor) -> Float[Tensor, "H 1"]:
        heads = torch.arange(self.num_heads, dtype=like.dtype, device=like.device)
        return torch.log1p(-torch.exp2(-5 - heads))[:, None]

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix of key by value channels per head."""
        held = self.num_heads * self.feature_dim * self.head_dim
        return StateSize.read_whole(held, paper=held)
