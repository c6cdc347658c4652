"""The recurrence of RWKV-5 and 6, token after token (Peng et al. 2024, arXiv 2404.05892, Section 4)."""

import torch
from jaxtyping import Float
from torch import Tensor


def wkv6_reference(
    r: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T K"],
    bonus: Float[Tensor, "H K"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """y_t = (S_{t-1} + diag(bonus) k_t v_t^T)^T r_t,  S_t = diag(exp(log_decay_t)) S_{t-1} + k_t v_t^T."""
    S = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    ys = []
    for r_t, k_t, v_t, w_t in zip(*(s.unbind(2) for s in (r, k, v, log_decay.exp())), strict=True):
        written = k_t[..., None] * v_t[..., None, :]
        ys.append((r_t[..., None, :] @ (S + bonus[..., None] * written)).squeeze(-2))
        S = w_t[..., None] * S + written
    return torch.stack(ys, dim=2), S
