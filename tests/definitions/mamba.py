"""Mamba: the selective recurrence, token after token, Gu and Dao 2023 (arXiv 2312.00752), Algorithm 2."""

import torch
from torch import Tensor

from tests.definitions.deltanet import silu
from zoo.mixers.mamba import Mamba


def definition(mixer: Mamba, x: Tensor) -> Tensor:
    return torch.stack([one(mixer, row) for row in x])


def one(m: Mamba, x: Tensor) -> Tensor:
    """A sequence [T D]."""
    size, rank, states = m.d_inner, m.dt_rank, m.d_state
    both = x @ m.in_proj.weight.T
    u, z = both[:, :size], both[:, size:]
    A, h, ys = -torch.exp(m.A_log), x.new_zeros(size, states), []
    for t in range(len(x)):
        taps = range(min(t + 1, len(m.conv.weight)))
        s = silu(m.conv.bias + sum(m.conv.weight[r] * u[t - r] for r in taps))
        low, B, C = (m.select.weight @ s).split([rank, states, states])
        dt = torch.log1p(torch.exp(m.dt_proj.weight @ low + m.dt_proj.bias))
        h = torch.exp(dt[:, None] * A) * h + torch.outer(dt * s, B)
        ys.append(m.out_proj.weight @ ((h @ C + m.D * s) * silu(z[t])))
    return torch.stack(ys)
