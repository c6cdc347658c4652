"""B'MOJO: one softmax over window, fading and kept tokens, Zancato et al. 2024 (arXiv 2407.06324), Section 4.

Which tokens are kept is zoo's rule, written here as a buffer in which a token replaces the smallest.
"""

import math

import torch
from torch import Tensor

from tests.definitions.attention import project, turned
from tests.definitions.mamba import one as mamba
from zoo.mixers.bmojo import BMojo


def definition(mixer: BMojo, x: Tensor) -> Tensor:
    return torch.stack([one(mixer, row) for row in x])


def one(m: BMojo, x: Tensor) -> Tensor:
    """A sequence [T D]."""
    qkv, W = m.qkv, m.window
    q, k, v = project(qkv.proj, x[None])[0].split([x.shape[1], qkv.kv_dim, qkv.kv_dim], dim=1)
    faded = mamba(m.ssm, x)
    faded = faded / (faded.square().mean(-1, keepdim=True) + 1e-5).sqrt() * m.fading_norm.weight
    if m.fading_proj is None:
        both = project(qkv.proj, faded[None])[0][:, x.shape[1] :]
    else:
        both = project(m.fading_proj, faded[None])[0]
    fading_k, fading_v = both[:, : qkv.kv_dim], both[:, qkv.kv_dim :]
    q, k, v, fading_k, fading_v = (heads(m, part) for part in (q, k, v, fading_k, fading_v))
    if qkv.position == "rope":
        q, k, fading_k = (turned(part, qkv.rope_base, qkv.rope_fraction) for part in (q, k, fading_k))
    scores = None if m.memory is None else innovations(m, x)
    kept, rows = [], []
    for i in range(len(x)):
        if scores is not None and i >= W:
            kept = replaced(kept, i - W, scores, m.memory.num_eidetic)
        old = list(range(max(0, i - 2 * W + 1), max(0, i - W + 1)))
        near = list(range(max(0, i - W + 1), i + 1))
        surprise = torch.stack([scores[j] for j in kept]) if kept else x.new_zeros(0)
        row = []
        for h in range(qkv.num_heads):
            g = h * qkv.num_kv_heads // qkv.num_heads
            keys = torch.cat([k[g, kept], fading_k[g, old], k[g, near]])
            values = torch.cat([v[g, kept], fading_v[g, old], v[g, near]])
            weights = torch.exp(keys @ q[h, i] / math.sqrt(qkv.head_dim))
            weights = weights * torch.cat([1 + surprise, x.new_ones(len(old) + len(near))])
            row.append((weights / weights.sum()) @ values)
        rows.append(torch.cat(row))
    return project(m.out_proj, torch.stack(rows)[None])[0]


def heads(m: BMojo, x: Tensor) -> Tensor:
    """[T heads*C] as [heads T C]."""
    return torch.stack(x.split(m.qkv.head_dim, dim=1))


def innovations(m: BMojo, x: Tensor) -> list[Tensor]:
    """For each token the mean square of what the P tokens before it do not predict."""
    w, found = m.memory.predict.weight, []
    for t in range(len(x)):
        predicted = sum((w[r - 1] * x[t - r] for r in range(1, len(w) + 1) if r <= t), 0 * x[0])
        found.append((x[t] - predicted).square().mean())
    return found


def replaced(kept: list[int], new: int, scores: list[Tensor], most: int) -> list[int]:
    """`new` enters while there is room, or in place of the smallest where that is smaller than itself."""
    if len(kept) < most:
        return [*kept, new]
    smallest = min(kept, key=lambda j: (scores[j].item(), -j))
    return [j for j in kept if j != smallest] + [new] if scores[new] > scores[smallest] else kept
