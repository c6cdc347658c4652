"""Preconditioned delta rules write less to the channels of a key that were written often.

Tumma et al. 2026, "Preconditioned DeltaNet: Curvature-aware Sequence Modeling for Linear Recurrences" (arXiv
2604.21100), over Gated DeltaNet and Kimi delta attention, by the recurrences of the authors' code.

B batch, T time, D model width, H heads, C channels of a query or key, V of a value, K taps.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.kernels.diagonal_scan import diagonal_scan
from zoo.kernels.dplr_delta_rule import dplr_delta_rule
from zoo.mixers.base import Seq
from zoo.mixers.delta_heads import Forgetting, unit
from zoo.mixers.gated_deltanet import GatedDeltaNet
from zoo.mixers.kimi_delta_attention import KimiDeltaAttention
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed

EPS, FIRST_CENTER = 1e-6, -0.2


class State(NamedTuple):
    memory: Float[Tensor, "B H C V"]
    tail: Float[Tensor, "B K-1 X"]
    moment: Float[Tensor, "B H C"]  # A


class Preconditioner(nn.Module):
    """Scale each channel of a key by a factor that falls as the channel's fading sum of squares grows:
    m_t = base^(-s), s = r / (1 + |r|), r = log(A_t + 1e-6) - c,  A_t = a_t A_{t-1} + b_t k_t^2.

    a (a decay, `Forgetting`), b = sigmoid(x W) and the learned c are this module's own, one of each per head.
    c and the decay's values carry `no_weight_decay = True`, which training reads.
    """

    def __init__(self, d_model: int, num_heads: int, base: float) -> None:
        super().__init__()
        if not 1 < base <= 2:  # at 1 there is nothing to learn
            raise ValueError(f"base (={base}) must be above 1 and at most 2, up to which the rule is stable.")
        self.base = base
        self.forget = Forgetting(d_model, num_heads)
        self.share = nn.Linear(d_model, num_heads, bias=False)
        self.center = nn.Parameter(torch.full((num_heads,), FIRST_CENTER))
        undecayed(self.center)

    def forward(
        self, x: Seq, k: Float[Tensor, "B H T C"], moment: Float[Tensor, "B H C"] | None
    ) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H C"]]:
        """Return the factor on each channel of the keys, and the second moment after them."""
        decay = self.forget(x).exp()[..., None].expand_as(k)
        share = self.share(x).sigmoid().transpose(1, 2)[..., None]
        moments, last = diagonal_scan(decay.to(k.dtype), share.to(k.dtype) * k.square(), moment)
        r = (moments + EPS).log() - self.center[:, None, None]
        return self.base ** (-r / (1 + r.abs())), last


class PreconditionedGatedDeltaNet(GatedDeltaNet):
    """Run Gated DeltaNet with corrections read along k, written along m * k, m from `Preconditioner`:
    S_t = alpha_t S_{t-1} + beta_t (m_t * k_t) (v_t - alpha_t S_{t-1}^T k_t)^T,  y_t = S_t^T q_t / sqrt C.

    base: of m, stable up to 2; the nearer it is to 1, the nearer the rule is to Gated DeltaNet's.
    """

    def __init__(self, *, d_model: int, num_heads: int, base: float, **rest: Any) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, **rest)
        self.preconditioner = Preconditioner(d_model, num_heads, base)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Forget and write by the preconditioned rule; keep the matrix, the tail and the second moment."""
        memory, tail, moment = (None, None, None) if state is None else state
        (q, k, v), tail = self.qkv(x, tail)
        q, k, log_alpha = unit(q) * self.head_dim**-0.5, unit(k), self.forget(x)[..., None]
        m, moment = self.preconditioner(x, k, moment)
        written = self.most * self.beta(x).sigmoid().transpose(1, 2)[..., None] * m * k
        y, memory = dplr_delta_rule(
            q, written, v, log_alpha.exp() * k, -written, log_alpha.expand_as(k), memory
        )
        return self.output(y, x), State(memory, tail, moment)

    def state_size(self, seq_len: int) -> StateSize:
        """Count Gated DeltaNet's state and a number per key channel."""
        return StateSize.read_whole(super().state_size(seq_len).resident + self.num_heads * self.head_dim)


class PreconditionedKDA(KimiDeltaAttention):
    """Run Kimi delta attention (KDA) with writes along m * k, where m comes from `Preconditioner`:
    S_t = diag(alpha_t) S_{t-1} + beta_t (m_t * k_t) (v_t - (diag(alpha_t) S_{t-1})^T k_t)^T, y as in KDA.

    base: of m, see `Preconditioner`.  KDA's initial decays stay; the authors' start with a dt_bias of 0.
    """

    def __init__(self, *, d_model: int, num_heads: int, base: float, **rest: Any) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, **rest)
        self.preconditioner = Preconditioner(d_model, num_heads, base)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Decay and write by the preconditioned rule; keep the matrix, the tail and the second moment."""
        memory, tail, moment = (None, None, None) if state is None else state
        q, k, v, log_alpha, tail = self._inputs(x, tail)
        m, moment = self.preconditioner(x, k, moment)
        written = self.beta(x).sigmoid().transpose(1, 2)[..., None] * m * k
        y, memory = dplr_delta_rule(q, written, v, log_alpha.exp() * k, -written, log_alpha, memory)
        return self._output(y, x), State(memory, tail, moment)

    def state_size(self, seq_len: int) -> StateSize:
        """Count Kimi delta attention's state and a number per key channel."""
        return StateSize.read_whole(super().state_size(seq_len).resident + self.num_heads * self.head_dim)
