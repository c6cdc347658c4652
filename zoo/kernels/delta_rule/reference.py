"""The gated delta rule, token after token (Yang et al. 2024, arXiv 2412.06464, Eq. 10)."""

import torch
from jaxtyping import Float
from torch import Tensor


def delta_rule_reference(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    beta: Float[Tensor, "B H T"],
    log_decay: Float[Tensor, "B H T"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """S <- exp(log_decay_t) S;  S <- S + k_t (beta_t (v_t - S^T k_t))^T;  y_t = S^T q_t."""
    S = torch.zeros_like(k[:, :, 0, :, None] * v[:, :, 0, None, :]) if state is None else state
    decay = torch.ones_like(beta) if log_decay is None else log_decay.exp()
    ys = []
    tokens = (x.unbind(2) for x in (q, k, v, beta, decay))
    for q_t, k_t, v_t, beta_t, decay_t in zip(*tokens, strict=True):
        S = decay_t[..., None, None] * S
        error = v_t - (S * k_t[..., None]).sum(-2)  # what the memory answers to k_t, against v_t
        S = S + k_t[..., None] * (beta_t[..., None] * error)[..., None, :]
        ys.append((S * q_t[..., None]).sum(-2))
    return torch.stack(ys, dim=2), S
