"""Eviction at a fixed budget: a cache token by token, H2O (arXiv 2306.14048) and TOVA (arXiv 2401.06104)."""

import torch
from torch import Tensor

from tests.definitions import attention
from zoo.mixers.evicting_attention import EvictingAttention


def definition(m: EvictingAttention, x: Tensor) -> Tensor:
    q, k, v = attention.positioned(m.qkv, x)
    y = torch.stack([torch.stack(row(m, b, q, k, v)) for b in range(x.shape[0])])
    return attention.project(m.out_proj, y)


def row(m: EvictingAttention, b: int, q: list, k: list, v: list) -> list[Tensor]:
    groups, share = m.qkv.num_kv_heads, m.qkv.num_heads // m.qkv.num_kv_heads
    caches: list[dict[int, float]] = [{} for _ in range(groups)]  # token -> score
    ys = []
    for t in range(q[0].shape[1]):
        heads, last = [], [dict.fromkeys([*cache, t], 0.0) for cache in caches]
        for h in range(m.qkv.num_heads):
            g = h // share
            past = list(last[g])
            weights = torch.softmax(k[g][b, past] @ q[h][b, t] / m.qkv.head_dim**0.5, dim=0)
            heads.append(weights @ v[g][b, past])
            for s, w in zip(past, weights.tolist(), strict=True):
                last[g][s] += w
        ys.append(torch.cat(heads))
        for g, cache in enumerate(caches):
            for s, w in last[g].items():
                cache[s] = cache.get(s, 0.0) + w
        means = {s: sum(each[s] for each in last) for s in last[0]} if m.rule == "tova" else {}
        for cache in caches:
            if len(cache) > m.budget:
                scores = means or cache
                del cache[min((s for s in cache if s <= t - m.recent), key=scores.__getitem__)]
    return ys
