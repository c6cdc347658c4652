"""Define gated linear attention, token after token (Yang et al. 2024, arXiv 2312.06635, Section 4.1)."""

import torch
from torch import Tensor


def gated_linear_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence token after token."""
    S = torch.zeros_like(k[..., 0, :, None] * v[..., 0, None, :]) if state is None else state
    decay = log_decay.exp()
    decay = decay[..., None] if decay.ndim < k.ndim else decay
    ys = []
    # unbind, not q[:, :, t]: the gradient of an index is a tensor as large as q, at every step
    for q_t, k_t, v_t, decay_t in zip(*(s.unbind(-2) for s in (q, k, v, decay)), strict=True):
        S = decay_t[..., None] * S + k_t[..., None] * v_t[..., None, :]
        ys.append((q_t[..., None] * S).sum(-2))
    return torch.stack(ys, dim=-2), S
