"""DeepSeek sparse attention: each token's choice by itself, DeepSeek-V3.2 (arXiv 2512.02556), Eqs. 1 to 4."""

import torch
from torch import Tensor

from tests.definitions import attention
from zoo.mixers.dsa import DeepSeekSparseAttention


def definition(m: DeepSeekSparseAttention, x: Tensor) -> Tensor:
    q, k, v = attention.positioned(m.qkv, x)
    J, width = m.index_heads, m.index_dim
    key, query, w = (x.detach() @ m.index_proj.weight.T).split([width, J * width, J], dim=-1)
    key = (key - key.mean(-1, keepdim=True)) / torch.sqrt(key.var(-1, unbiased=False, keepdim=True) + 1e-5)
    key, query = key * m.index_norm.weight + m.index_norm.bias, query.unflatten(-1, (J, width))
    w, rows, loss = w / (J * width) ** 0.5, [], torch.zeros((), dtype=x.dtype)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            scores = sum(w[b, t, j] * torch.relu(key[b, : t + 1] @ query[b, t, j]) for j in range(J))
            seen = sorted(range(t + 1), key=lambda s: (scores[s].item(), s))[-m.top_k :]
            heads, shares = [], 0
            for h in range(m.qkv.num_heads):
                g = h * m.qkv.num_kv_heads // m.qkv.num_heads
                e = torch.exp(k[g][b, seen] @ q[h][b, t] / m.qkv.head_dim**0.5)
                heads.append((e / e.sum()) @ v[g][b, seen])
                shares = shares + (e / e.sum()).detach() / m.qkv.num_heads
            loss = loss + (shares * (shares.log() - scores[seen].log_softmax(0))).sum()
            rows.append(torch.cat(heads))
    y = attention.project(m.out_proj, torch.stack(rows).reshape(x.shape))
    return BesideLoss.apply(y, m.aux_weight * loss / x.shape[0] / x.shape[1])


class BesideLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y: Tensor, loss: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, grad.new_ones(())
