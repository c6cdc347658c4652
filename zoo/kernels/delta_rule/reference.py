"""Define the gated delta rule, token after token (Yang et al. 2024, arXiv 2412.06464, Eq. 10)."""

import torch
from torch import Tensor


def delta_rule_reference(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Update the state token after token; a query reads it after every n writes."""
    S = torch.zeros_like(k[:, :, 0, :, None] * v[:, :, 0, None, :]) if state is None else state
    decay = torch.ones_like(beta) if log_decay is None else log_decay.exp()
    states = []
    writes = (x.unbind(2) for x in (k, v, beta, decay))
    for k_t, v_t, beta_t, decay_t in zip(*writes, strict=True):
        S = decay_t[..., None, None] * S
        error = v_t - (S * k_t[..., None]).sum(-2)  # v_t minus the value that S holds for k_t
        S = S + k_t[..., None] * (beta_t[..., None] * error)[..., None, :]
        states.append(S)
    each = k.shape[2] // q.shape[2]
    ys = [(S * q_t[..., None]).sum(-2) for S, q_t in zip(states[each - 1 :: each], q.unbind(2), strict=True)]
    return torch.stack(ys, dim=2), states[-1]
