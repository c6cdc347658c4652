"""Define the Mesa layer by a linear system for each token (von Oswald et al. 2025, arXiv 2506.05233)."""

import torch
from jaxtyping import Float
from torch import Tensor

State = tuple[Float[Tensor, "B H K K"], Float[Tensor, "B H K V"]]


def mesa_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor,
    ridge: Tensor,
    state: State | None = None,
) -> tuple[Tensor, State]:
    """Solve one linear system for each token."""
    shape = q.shape[:2]
    none = (k.new_zeros(*shape, k.shape[-1], k.shape[-1]), k.new_zeros(*shape, k.shape[-1], v.shape[-1]))
    kk, kv = none if state is None else state
    ys = []
    for q_t, k_t, v_t, beta_t, a_t in zip(*(x.unbind(2) for x in (q, k, v, beta, log_decay)), strict=True):
        decay, column = a_t.exp()[..., None, None], (beta_t[..., None] * k_t)[..., None]
        kk = decay * kk + column * k_t[..., None, :]
        kv = decay * kv + column * v_t[..., None, :]
        x = torch.linalg.solve(kk + torch.diag_embed(ridge), q_t[..., None])
        ys.append((x * kv).sum(-2))
    return torch.stack(ys, dim=2), (kk, kv)
