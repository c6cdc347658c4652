"""Raven: slot by slot, each written or left alone, Afzal et al. 2026 (arXiv 2607.25357), Section 3."""

import torch
from torch import Tensor

from tests.definitions.deltanet import rms, silu
from zoo.mixers.raven import Raven


def definition(m: Raven, x: Tensor) -> Tensor:
    q, k, v = silu(x @ m.qkv.weight.T).reshape(*x.shape[:2], 3, m.num_heads, -1).unbind(2)
    q, k = rms(q, m.q_norm), rms(k, m.k_norm)
    a = -torch.exp(m.forget.A_log) * torch.log1p(torch.exp(x @ m.forget.proj.weight.T + m.forget.dt_bias))
    scores = torch.sigmoid(x @ m.keep.weight.T).reshape(*x.shape[:2], m.num_heads, m.num_slots)
    rows = []
    for b in range(x.shape[0]):
        heads = []
        for h in range(m.num_heads):
            keys, values = ([x.new_zeros(m.head_dim)] * m.num_slots for _ in range(2))
            ys = []
            for t in range(x.shape[1]):
                r = scores[b, t, h]
                order = sorted(range(m.num_slots), key=r.tolist().__getitem__, reverse=True)[: m.num_chosen]
                total = m.scale * (sum(r[s] for s in order) + 1e-9)
                for s in order:
                    stay = torch.exp(a[b, t, h] * r[s] / total)
                    keys[s] = stay * keys[s] + (1 - stay) * k[b, t, h]
                    values[s] = stay * values[s] + (1 - stay) * v[b, t, h]
                weights = torch.exp(torch.stack(keys) @ q[b, t, h])
                ys.append(weights @ torch.stack(values) / weights.sum())
            heads.append(torch.stack(ys))
        rows.append(torch.cat(heads, dim=-1))
    return rms(silu(torch.stack(rows)), m.norm) @ m.out_proj.weight.T
