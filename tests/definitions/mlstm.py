"""mLSTM: the matrix memory without its stabiliser, Beck et al. 2024 (arXiv 2405.04517), Eqs. 19 to 27."""

import torch
from torch import Tensor

from tests.definitions.deltanet import causal, silu
from zoo.mixers.mlstm import MLSTM


def definition(m: MLSTM, x: Tensor) -> Tensor:
    return around(m, x, memory)


def around(m: MLSTM, x: Tensor, memory) -> Tensor:
    u, z = (x @ m.in_proj.weight.T).chunk(2, dim=-1)
    mixed = silu(causal(m.conv.weight, u, m.conv.bias))
    q, k, v = (blockwise(m.qkv[p], s) for p, s in enumerate((mixed, mixed, u)))
    i, f = (torch.cat([q, k, v], dim=-1) @ m.gates.weight.T + m.gates.bias).chunk(2, dim=-1)
    heads = (s.reshape(*x.shape[:2], m.num_heads, -1) for s in (q, k, v))
    h = memory(*heads, torch.exp(i), torch.sigmoid(f))
    h = (h - h.mean(-1, keepdim=True)) / torch.sqrt(h.var(-1, unbiased=False, keepdim=True) + 1e-5)
    return ((h.flatten(2) * m.norm_weight + m.skip * mixed) * silu(z)) @ m.out_proj.weight.T


def memory(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
    """q, k and v [B T H P], gates [B T H]."""
    C = n = 0
    hs = []
    for t in range(q.shape[1]):
        key = k[:, t] / q.shape[-1] ** 0.5
        write, keep = i[:, t, :, None], f[:, t, :, None]
        C = keep[..., None] * C + write[..., None] * torch.einsum("bhv,bhk->bhvk", v[:, t], key)
        n = keep * n + write * key
        total = (n * q[:, t]).sum(-1, keepdim=True).abs()
        hs.append(torch.einsum("bhvk,bhk->bhv", C, q[:, t]) / torch.maximum(total, torch.ones_like(total)))
    return torch.stack(hs, dim=1)


def blockwise(blocks: Tensor, x: Tensor) -> Tensor:
    size = blocks.shape[1]
    return torch.cat([x[..., g * size : (g + 1) * size] @ block for g, block in enumerate(blocks)], dim=-1)
