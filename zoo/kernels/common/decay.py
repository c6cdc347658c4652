"""Compute the decay between tokens, where every token multiplies the past by a factor of its own."""

import torch
from jaxtyping import Float
from torch import Tensor


def decays(log_decay: Float[Tensor, "*any C"]) -> tuple[Float[Tensor, "*any C C"], Float[Tensor, "*any C 1"]]:
    """Return exp of the sums of log_decay over (j, i], 0 for i < j, and exp of the sums up to i.

    Each sum is added up by itself: the difference of two long sums would lose the terms between them.
    """
    size = log_decay.shape[-1]
    sums = log_decay[..., None].expand(*log_decay.shape, size).tril(-1).cumsum(-2)
    later = torch.ones(size, size, dtype=torch.bool, device=log_decay.device).triu(1)
    return sums.masked_fill(later, -torch.inf).exp(), log_decay.cumsum(-1).exp()[..., None]


def carried(
    M: Float[Tensor, "B H N K K"], N: Float[Tensor, "B H N K V"], state: Float[Tensor, "B H K V"] | None
) -> tuple[Float[Tensor, "B H N K V"], Float[Tensor, "B H K V"]]:
    """Return the state S that each chunk starts from, and the last; a chunk turns S into M S + N."""
    S = torch.zeros_like(N[:, :, 0]) if state is None else state
    starts = []
    for M_n, N_n in zip(M.unbind(2), N.unbind(2), strict=True):
        starts.append(S)
        S = M_n @ S + N_n
    return torch.stack(starts, dim=2), S
