"""Forgetting attention: every softmax by itself, Lin et al. 2025 (arXiv 2503.02130), Eq. 5 to 7."""

import math

import torch
from torch import Tensor

from tests.definitions.attention import positioned, project
from zoo.mixers.forgetting_attention import ForgettingAttention

PACKAGE = "fla-core: fla.ops.forgetting_attn.naive.naive_forgetting_attn"
PACKAGE_TOLERANCE = 1e-4  # it works in float32


def definition(mixer: ForgettingAttention, x: Tensor) -> Tensor:
    q, k, v = positioned(mixer.qkv, x)
    gates = 1 / (1 + torch.exp(-project(mixer.gate, x)))
    shared, rows = mixer.num_heads // mixer.qkv.num_kv_heads, []
    for t in range(x.shape[1]):
        row = []
        for h in range(mixer.num_heads):
            kept = gates[:, 1 : t + 1, h].flip(1).cumprod(1).flip(1)  # the gates after s, up to t
            kept = torch.cat([kept, torch.ones_like(x[:, :1, 0])], dim=1)
            products = (q[h][:, t, None] * k[h // shared][:, : t + 1]).sum(-1)
            weights = kept * torch.exp(products / math.sqrt(mixer.qkv.head_dim))
            y = (weights[..., None] * v[h // shared][:, : t + 1]).sum(1)
            row.append(y / weights.sum(1, keepdim=True))
        rows.append(torch.cat(row, dim=-1))
    return project(mixer.out_proj, torch.stack(rows, dim=1))


def package(mixer: ForgettingAttention, x: Tensor) -> Tensor:
    from fla.ops.forgetting_attn.naive import naive_forgetting_attn

    parts = (torch.stack(part, dim=2) for part in positioned(mixer.qkv, x))
    y = naive_forgetting_attn(*parts, torch.nn.functional.logsigmoid(project(mixer.gate, x)))
    return project(mixer.out_proj, y.flatten(2).to(x.dtype))
