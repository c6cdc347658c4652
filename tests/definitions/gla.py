"""Gated linear attention: the recurrence of the state, Yang et al. 2024 (arXiv 2312.06635), Eq. 3 and 4.4."""

import torch
from torch import Tensor

from tests.definitions.deltanet import rms, silu
from zoo.mixers.gla import GatedLinearAttention

PACKAGE = "fla-core: fla.ops.gla.naive.naive_recurrent_gla"
PACKAGE_TOLERANCE = 5e-3  # it works in float32, and of one token the norm leaves a gradient near 0


def definition(mixer: GatedLinearAttention, x: Tensor) -> Tensor:
    return around(mixer, x, recurrence)


def package(mixer: GatedLinearAttention, x: Tensor) -> Tensor:
    from fla.ops.gla.naive import naive_recurrent_gla

    return around(mixer, x, lambda q, k, v, a: naive_recurrent_gla(q, k, v, a.log())[0])


def recurrence(q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
    """All [B T H C]; a in (0, 1)."""
    S, ys = 0, []
    for t in range(q.shape[1]):
        S = a[:, t, :, :, None] * S + torch.einsum("bhk,bhv->bhkv", k[:, t], v[:, t])
        ys.append(torch.einsum("bhk,bhkv->bhv", q[:, t] / q.shape[-1] ** 0.5, S))
    return torch.stack(ys, dim=1)


def around(m: GatedLinearAttention, x: Tensor, attend) -> Tensor:
    low = x @ m.decay_in.weight.T
    a = torch.sigmoid(low @ m.decay_out.weight.T + m.decay_out.bias) ** (1 / m.temperature)
    parts = (x @ m.q.weight.T, x @ m.k.weight.T, x @ m.v.weight.T, a)
    y = attend(*(part.reshape(*x.shape[:2], m.num_heads, -1) for part in parts))
    return (rms(y, m.norm).flatten(2) * silu(x @ m.gate.weight.T)) @ m.out_proj.weight.T
