"""HGRN2: the recurrence with outer-product expansion, Qin et al. 2024 (arXiv 2404.07904), Eqs. 2 and 6."""

import torch
from torch import Tensor

from zoo.mixers.hgrn2 import HGRN2

PACKAGE = "fla-core: fla.ops.gla.naive.naive_recurrent_gla (given these gates)"
PACKAGE_TOLERANCE = 5e-3  # it works in float32, and of one token the norm leaves a gradient near 0


def definition(mixer: HGRN2, x: Tensor) -> Tensor:
    return around(mixer, x, recurrence)


def package(mixer: HGRN2, x: Tensor) -> Tensor:
    from fla.ops.gla.naive import naive_recurrent_gla

    def theirs(q: Tensor, a: Tensor, v: Tensor) -> Tensor:
        return naive_recurrent_gla(q * q.shape[-1] ** 0.5, 1 - a, v, a.log())[0]

    return around(mixer, x, theirs)


def recurrence(q: Tensor, a: Tensor, v: Tensor) -> Tensor:
    """All [B T H C]; a in (0, 1) forgets, and 1 - a writes."""
    S, ys = 0, []
    for t in range(q.shape[1]):
        S = a[:, t, :, :, None] * S + torch.einsum("bhk,bhv->bhkv", 1 - a[:, t], v[:, t])
        ys.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))
    return torch.stack(ys, dim=1)


def around(m: HGRN2, x: Tensor, attend) -> Tensor:
    q, f = x @ m.q.weight.T, x @ m.f.weight.T
    floor = 0 if m.floor_logit is None else 1 / (1 + torch.exp(-m.floor_logit))
    a = floor + (1 - floor) / (1 + torch.exp(-f))
    parts = (q / (1 + torch.exp(-q)), a, x @ m.v.weight.T)
    y = attend(*(part.reshape(*x.shape[:2], m.num_heads, -1) for part in parts)).flatten(2)
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5) * m.norm.weight
    return y @ m.out_proj.weight.T
