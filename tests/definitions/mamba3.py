"""Mamba-3 (SISO): the trapezoidal recurrence, its state turning, Lahoti et al. 2026 (arXiv 2603.15569), 3.

Complex numbers turn the state itself; the mixer turns the maps in and out of it.
"""

import math

import torch
from torch import Tensor

from zoo.mixers.mamba3 import ACTIVATIONS, Mamba3


def definition(m: Mamba3, x: Tensor) -> Tensor:
    states, heads = m.d_state, m.num_heads
    z, v, B, C, dt, A, share, theta = (x @ m.in_proj.weight.T).split(m.sizes, dim=-1)
    v = v.reshape(*x.shape[:2], heads, m.head_dim)
    B, C = (
        (s / torch.sqrt((s * s).mean(-1, keepdim=True) + 1e-5) * norm.weight)[:, :, None] + bias[:, 0]
        for s, norm, bias in ((B, m.B_norm, m.B_bias), (C, m.C_norm, m.C_bias))
    )
    dt = torch.log1p(torch.exp(dt + m.dt_bias))
    heavy = m.decay_activation is ACTIVATIONS["heavy_tail"]
    rate = torch.where(A > 0, 1 + A, 1 / (1 + A.abs())) if heavy else torch.log1p(torch.exp(A))
    decay = torch.exp(-dt * rate)
    share = 1 / (1 + torch.exp(-share))
    h, before, ys = 0, 0, []
    for t in range(x.shape[1]):
        written = torch.einsum("bhn,bhp->bhnp", B[:, t], v[:, t])
        carried = decay[:, t, :, None, None] * (h + ((1 - share) * dt)[:, t, :, None, None] * before)
        angle = math.pi * torch.tanh(theta[:, t, None]) * dt[:, t, :, None]
        if t:
            carried = back(carried, angle)
        h, before = carried + (share * dt)[:, t, :, None, None] * written, written
        ys.append(torch.einsum("bhn,bhnp->bhp", C[:, t], h) + m.D[:, None] * v[:, t])
    assert h.shape[2] == states
    return (torch.stack(ys, dim=1).flatten(2) * z / (1 + torch.exp(-z))) @ m.out_proj.weight.T


def back(h: Tensor, angle: Tensor) -> Tensor:
    """The state [B H N P] turned back by angle [B H R] in the planes of channels (0, 1), (2, 3), ..."""
    pairs = angle.shape[-1]
    first, second = h[:, :, 0 : 2 * pairs : 2], h[:, :, 1 : 2 * pairs : 2]
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angle), -angle)[..., None]
    both = torch.stack([turned.real, turned.imag], dim=3).flatten(2, 3)
    return torch.cat([both, h[:, :, 2 * pairs :]], dim=2)
