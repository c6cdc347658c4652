"""Define RWKV-5's and 6's recurrence, token after token (Peng et al. 2024, arXiv 2404.05892, Section 4)."""

import torch
from torch import Tensor


def wkv6_reference(
    r: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, bonus: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence token after token."""
    S = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    ys = []
    for r_t, k_t, v_t, w_t in zip(*(s.unbind(2) for s in (r, k, v, log_decay.exp())), strict=True):
        written = k_t[..., None] * v_t[..., None, :]
        ys.append((r_t[..., None, :] @ (S + bonus[..., None] * written)).squeeze(-2))
        S = w_t[..., None] * S + written
    return torch.stack(ys, dim=2), S
