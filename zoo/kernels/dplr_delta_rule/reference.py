"""The delta rule with a diagonal-plus-low-rank transition, token after token."""

import torch
from jaxtyping import Float
from torch import Tensor


def dplr_delta_rule_reference(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    a: Float[Tensor, "B H T K"],
    b: Float[Tensor, "B H T K"],
    log_decay: Float[Tensor, "B H T K"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """S_t = diag(exp(log_decay_t)) S_{t-1} + b_t (a_t^T S_{t-1}) + k_t v_t^T,  y_t = q_t^T S_t."""
    S = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    ys = []
    steps = (s.unbind(2) for s in (q, k, v, a, b, log_decay.exp()))
    for q_t, k_t, v_t, a_t, b_t, w_t in zip(*steps, strict=True):
        read = (a_t[..., None, :] @ S).squeeze(-2)  # a^T S: what the state holds along a
        S = w_t[..., None] * S + b_t[..., None] * read[..., None, :] + k_t[..., None] * v_t[..., None, :]
        ys.append((q_t[..., None, :] @ S).squeeze(-2))
    return torch.stack(ys, dim=2), S
