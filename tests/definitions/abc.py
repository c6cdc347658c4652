"""ABC: each slot a weighted mean of the past, summed by itself, Peng et al. 2021 (arXiv 2110.02488)."""

import torch
from torch import Tensor

from tests.definitions import attention
from zoo.mixers.abc import BoundedMemoryAttention

PACKAGE = "fla-core: fla.ops.abc.naive.naive_recurrent_abc"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def definition(m: BoundedMemoryAttention, x: Tensor) -> Tensor:
    q, k, v = attention.heads(m.qkv, x)
    weights = weighed(m, x).exp()
    rows = []
    for t in range(x.shape[1]):
        row = []
        for h in range(m.num_heads):
            w = weights[:, : t + 1, h] / weights[:, : t + 1, h].sum(1, keepdim=True)
            keys, values = (torch.einsum("bsm,bsc->bmc", w, part[h][:, : t + 1]) for part in (k, v))
            e = torch.exp(torch.einsum("bmc,bc->bm", keys, q[h][:, t]) / m.head_dim**0.5)
            row.append(torch.einsum("bm,bmc->bc", e / e.sum(-1, keepdim=True), values))
        rows.append(torch.cat(row, dim=-1))
    return attention.project(m.out_proj, torch.stack(rows, dim=1))


def package(m: BoundedMemoryAttention, x: Tensor) -> Tensor:
    from fla.ops.abc.naive import naive_recurrent_abc

    q, k, v = (torch.stack(part, dim=1) for part in attention.heads(m.qkv, x))
    y = naive_recurrent_abc(q, k, v, weighed(m, x).transpose(1, 2))[0]
    return attention.project(m.out_proj, y.transpose(1, 2).flatten(2).to(x.dtype))


def weighed(m: BoundedMemoryAttention, x: Tensor) -> Tensor:
    s = (x @ m.control.weight.T).clamp(-32, 32)
    return s.reshape(*x.shape[:2], m.num_heads, m.num_slots)
