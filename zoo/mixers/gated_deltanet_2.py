"""Gated DeltaNet-2 gives Kimi delta attention separate gates for erasing and writing, one per channel.

Hatamizadeh et al. 2026, "Gated DeltaNet-2: Decoupling Erase and Write in Linear Attention" (arXiv
2605.22791), with recurrence and layer from github.com/fla-org/flash-linear-attention (fla/ops/gdn2); the
authors' own code was not read.

B batch, T time, D model width, H heads, C channels of a head.
"""

from typing import Any

import torch
from torch import nn

from zoo.kernels.dplr_delta_rule import dplr_delta_rule
from zoo.mixers.base import Seq
from zoo.mixers.kimi_delta_attention import KimiDeltaAttention, State


class GatedDeltaNet2(KimiDeltaAttention):
    """Apply the delta rule to a matrix per head, with gates per channel to decay, erase and write:
    S_t = (I - k_t (b_t * k_t)^T) diag(alpha_t) S_{t-1} + k_t (w_t * v_t)^T,  y_t = S_t^T q_t / sqrt C.

    The erase gate b and the write gate w are sigmoid(x W), one per channel.  All else is as in Kimi delta
    attention, which is the case b = w = beta.
    allow_neg_eigval: b in (0, 2) instead of (0, 1); w stays in (0, 1).
    """

    def __init__(self, *, d_model: int, num_heads: int, allow_neg_eigval: bool, **rest: Any) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, **rest)
        self.most = 2.0 if allow_neg_eigval else 1.0
        self.beta = nn.Linear(d_model, 2 * num_heads * self.head_dim, bias=False)  # b, then w

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Decay, erase and write channel by channel; keep the matrix and the tail."""
        S, tail = (None, None) if state is None else state
        q, k, v, log_alpha, tail = self._inputs(x, tail)
        gates = torch.sigmoid(self.beta(x)).unflatten(-1, (2, self.num_heads, -1))
        erase, write = gates.permute(2, 0, 3, 1, 4)
        read = log_alpha.exp() * (self.most * erase * k)
        y, S = dplr_delta_rule(q, k, write * v, read, -k, log_alpha, S)
        return self._output(y, x), State(S, tail)
