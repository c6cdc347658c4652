"""Eviction at a budget, token by token: H2O (2306.14048), TOVA (2401.06104), SnapKV (arXiv 2404.14469)."""

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
    ys: list[Tensor] = []
    history: list[list[dict[int, float]]] = []  # of each query
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
        history.append(last)
        for g, cache in enumerate(caches):
            for s, w in last[g].items():
                cache[s] = cache.get(s, 0.0) + w
        means = {s: sum(each[s] for each in last) for s in last[0]} if m.rule == "tova" else {}
        if m.rule == "snapkv":
            for g, cache in enumerate(caches):
                snap(m, cache, [each[g] for each in history[-m.recent :]])
            continue
        for cache in caches:
            if len(cache) > m.budget:
                scores = means or cache
                del cache[min((s for s in cache if s <= t - m.recent), key=scores.__getitem__)]
    return ys


def snap(m: EvictingAttention, cache: dict[int, float], window: list[dict[int, float]]) -> None:
    """Compress the cache once it is full: the window stays, and the best of the others."""
    tokens = sorted(cache)
    if len(tokens) < m.budget + m.recent:
        return
    others = tokens[: -m.recent]
    sums = [0.0, 0.0, *(sum(each[s] for each in window) for s in others), 0.0, 0.0]
    means = {s: sum(sums[i : i + 5]) / 5 for i, s in enumerate(others)}
    for s in sorted(others, key=means.__getitem__)[: m.recent]:
        del cache[s]
