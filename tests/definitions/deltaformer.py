"""DeltaFormer: each value corrected in its turn, Zhong et al. 2025 (arXiv 2505.19488)."""

import torch
from torch import Tensor

from tests.definitions import attention
from zoo.mixers.deltaformer import DeltaFormer


def definition(m: DeltaFormer, x: Tensor) -> Tensor:
    q, k, v = attention.positioned(m.qkv, x)
    beta = torch.sigmoid(x @ m.beta.weight.T + m.beta.bias)
    corrected = []
    for h in range(m.qkv.num_heads):
        z, us = (k if m.erase_by == "key" else q)[h], [v[h][:, 0]]
        for t in range(1, x.shape[1]):
            weights = torch.exp((k[h][:, :t] * z[:, t, None]).sum(-1) / m.qkv.head_dim**0.5)
            weights = weights / weights.sum(-1, keepdim=True)
            said = (weights[..., None] * torch.stack(us, dim=1)).sum(1)
            us.append(v[h][:, t] - beta[:, t, h, None] * said)
        corrected.append(torch.stack(us, dim=1))
    return attention.project(m.out_proj, attention.attend(m.qkv, q, k, corrected, lambda t: range(t + 1)))
