"""Define the delta rule with a diagonal-plus-low-rank transition, token after token."""

import torch
from torch import Tensor


def dplr_delta_rule_reference(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence token after token."""
    S = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    ys = []
    steps = (s.unbind(2) for s in (q, k, v, a, b, log_decay.exp()))
    for q_t, k_t, v_t, a_t, b_t, w_t in zip(*steps, strict=True):
        read = (a_t[..., None, :] @ S).squeeze(-2)  # a^T S: what the state holds along a
        S = w_t[..., None] * S + b_t[..., None] * read[..., None, :] + k_t[..., None] * v_t[..., None, :]
        ys.append((q_t[..., None, :] @ S).squeeze(-2))
    return torch.stack(ys, dim=2), S
