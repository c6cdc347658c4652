"""Mixture of memories: token by token, memory by memory, Du et al. 2025 (arXiv 2502.13685), Section 3."""

import torch
from torch import Tensor

from tests.definitions import gated_deltanet
from tests.definitions.deltanet import convolved, norm_1
from zoo.mixers.mixture_of_memories import MixtureOfMemories


def definition(m: MixtureOfMemories, x: Tensor) -> Tensor:
    N, H, C, V = m.num_memories, m.num_heads, m.head_dim, m.value_dim
    mixed = convolved(m.qkv.proj.weight, m.qkv.conv.weight, x)
    q, k, v = mixed.split([H * C, H * N * C, H * N * V], dim=-1)
    q = norm_1(q.reshape(*x.shape[:2], H, C))
    k, v = norm_1(k.reshape(*x.shape[:2], H, N, C)), v.reshape(*x.shape[:2], H, N, V)
    beta = torch.sigmoid(x @ m.beta.weight.T).reshape(*x.shape[:2], N, H)
    raw = (x @ m.forget.proj.weight.T).reshape(*x.shape[:2], N, H) + m.forget.dt_bias
    alpha = torch.exp(-torch.exp(m.forget.A_log) * torch.log1p(torch.exp(raw)))
    rows = []
    for b in range(x.shape[0]):
        S, ys = [x.new_zeros(H, C, V) for _ in range(N)], []
        for t in range(x.shape[1]):
            scores = torch.zeros(1).double() if m.router is None else m.router.weight @ x[b, t]
            chosen = sorted(range(N), key=scores.tolist().__getitem__, reverse=True)[: m.top_k]
            shares = torch.softmax(scores[chosen], dim=0)
            y = 0
            for share, n in zip(shares, chosen, strict=True):
                faded = alpha[b, t, n, :, None, None] * S[n]
                error = v[b, t, :, n] - torch.einsum("hkv,hk->hv", faded, k[b, t, :, n])
                S[n] = faded + beta[b, t, n, :, None, None] * k[b, t, :, n, :, None] * error[:, None]
                y = y + share * torch.einsum("hkv,hk->hv", S[n], q[b, t]) / C**0.5
            ys.append(y)
        rows.append(torch.stack(ys))
    return gated_deltanet.output(m, torch.stack(rows), x)
