"""Retention, its parallel form: Sun et al. 2023 (arXiv 2307.08621), Eq. 5, with norm and gate of Eq. 8."""

import torch
from torch import Tensor

from tests.definitions.attention import turned
from zoo.mixers.retnet import RetNet

PACKAGE = "fla-core: fla.ops.retention.naive.naive_retention"
PACKAGE_TOLERANCE = 1e-3  # it works in float32, and of one token the norm leaves a gradient near 0


def definition(mixer: RetNet, x: Tensor) -> Tensor:
    return around(mixer, x, parallel)


def package(mixer: RetNet, x: Tensor) -> Tensor:
    from fla.ops.retention.naive import naive_retention

    return around(mixer, x, naive_retention)


def parallel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(Q K^T . D) V, D_nm = gamma^(n-m) for n >= m."""
    time = torch.arange(q.shape[2], dtype=q.dtype)
    age = time[:, None] - time
    ys = []
    for h in range(q.shape[1]):
        decay = torch.where(age >= 0, (1 - 2.0 ** (-5 - h)) ** age.clamp(min=0), 0)
        ys.append((q[:, h] @ k[:, h].mT / q.shape[-1] ** 0.5 * decay) @ v[:, h])
    return torch.stack(ys, dim=1)


def around(m: RetNet, x: Tensor, retention) -> Tensor:
    q, k, v = ((x @ p.weight.T).unflatten(-1, (m.num_heads, -1)).transpose(1, 2) for p in (m.q, m.k, m.v))
    q, k = (torch.stack([turned(row, m.rope_base) for row in part]) for part in (q, k))
    y = retention(q, k, v)
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5)
    gate = x @ m.gate.weight.T
    return (y.transpose(1, 2).flatten(2) * gate * torch.sigmoid(gate)) @ m.out_proj.weight.T
