"""Attention sinks: a cache of first and last tokens by places, Xiao et al. 2023 (arXiv 2309.17453), 3.2."""

import torch
from torch import Tensor

from tests.definitions import attention
from zoo.mixers.attention_sinks import AttentionSinks


def definition(m: AttentionSinks, x: Tensor) -> Tensor:
    q, k, v = attention.heads(m.qkv, x)
    rows = []
    for t in range(x.shape[1]):
        cache = [s for s in range(t + 1) if s < m.num_global or t - s < m.window]
        row = []
        for h in range(m.qkv.num_heads):
            g = h * m.qkv.num_kv_heads // m.qkv.num_heads
            # the query stands where its own token does: at the last place of the cache
            keys, query = k[g][:, cache], q[h][:, [t] * len(cache)]
            if m.turn:
                keys, query = attention.turned(keys, *m.turn), attention.turned(query, *m.turn)
            weights = torch.exp((keys * query[:, -1:]).sum(-1) / m.qkv.head_dim**0.5)
            total = weights.sum(-1) + (0 if m.sink is None else torch.exp(m.sink[h]))
            row.append(torch.einsum("bs,bsc->bc", weights / total[:, None], v[g][:, cache]))
        rows.append(torch.cat(row, dim=-1))
    return attention.project(m.out_proj, torch.stack(rows, dim=1))
