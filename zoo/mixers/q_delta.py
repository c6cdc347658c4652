"""Q-Delta erases what the memory returns for the key and, in part, for the query, before it writes.

Park et al. 2026, "Q-Delta: Beyond Key-Value Associative State Evolution" (arXiv 2606.08804), by its
equations: the public chunk kernel computes another recurrence, whose result depends on the chunk.

B batch, T time, D model width, H heads, C channels of a query or key, V of a value.
"""

from typing import Any

from torch import nn

from zoo.kernels.dplr_delta_rule import dplr_delta_rule
from zoo.mixers.base import Seq
from zoo.mixers.delta_heads import unit
from zoo.mixers.gated_deltanet import GatedDeltaNet, State

SHIFT = -0.9  # of the logit of lambda, so that it starts at .29


class QDelta(GatedDeltaNet):
    """Run Gated DeltaNet, but erase what the memory returns for the key plus a share of the query:
    S_t = alpha_t S_{t-1} + beta_t k_t (v_t - alpha_t S_{t-1}^T e_t)^T,  e_t = k_t + lambda_t q_t.

    lambda = sigmoid(x W - 0.9), one per head; in e, q and k have norm 1.  All else is as in Gated DeltaNet,
    which is the case lambda = 0.
    allow_neg_eigval: beta and lambda in (0, 2) instead of (0, 1).  The eigenvalue 1 - beta k e can then
    exceed 1, where lambda k q < -1; nothing here prevents that.
    """

    def __init__(self, *, d_model: int, num_heads: int, **rest: Any) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, **rest)
        self.share = nn.Linear(d_model, num_heads, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Forget, erase what key and query read, and write; keep the matrix and the tail."""
        memory, tail = (None, None) if state is None else state
        (q, k, v), tail = self.qkv(x, tail)
        q, k = unit(q), unit(k)
        beta, share = (
            self.most * logits.sigmoid().transpose(1, 2)[..., None]
            for logits in (self.beta(x), self.share(x) + SHIFT)
        )
        log_alpha, written = self.forget(x)[..., None].expand_as(k), beta * k
        read = log_alpha.exp() * (k + share * q)
        y, memory = dplr_delta_rule(q * self.head_dim**-0.5, written, v, read, -written, log_alpha, memory)
        return self.output(y, x), State(memory, tail)
