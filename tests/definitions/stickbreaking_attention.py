"""Stick-breaking attention: the stick broken key by key, Tan et al. 2025 (arXiv 2410.17980), Eq. 2 and 3."""

import math

import torch
from torch import Tensor

from tests.definitions.attention import heads, project
from zoo.mixers.stickbreaking_attention import StickbreakingAttention

PACKAGE = "fla-core: fla.ops.stickbreaking_attn.naive.naive_stickbreaking_attn"


def definition(mixer: StickbreakingAttention, x: Tensor) -> Tensor:
    q, k, v = heads(mixer.qkv, x)
    shared, rows = mixer.qkv.num_heads // mixer.qkv.num_kv_heads, []
    for t in range(x.shape[1]):
        row = []
        for h in range(mixer.qkv.num_heads):
            products = (q[h][:, t, None] * k[h // shared][:, :t]).sum(-1) / math.sqrt(mixer.qkv.head_dim)
            shares, whole = 1 / (1 + torch.exp(-products)), torch.ones_like(x[:, :1, 0])
            left = torch.cat([(1 - shares).flip(1).cumprod(1).flip(1), whole], dim=1)  # after s and newer
            weights = torch.cat([shares * left[:, 1:], left[:, :1]], dim=1)  # the token itself takes the rest
            row.append((weights[..., None] * v[h // shared][:, : t + 1]).sum(1))
        rows.append(torch.cat(row, dim=-1))
    return project(mixer.out_proj, torch.stack(rows, dim=1))


def package(mixer: StickbreakingAttention, x: Tensor) -> Tensor:
    from fla.ops.stickbreaking_attn.naive import naive_stickbreaking_attn

    q, k, v = (torch.stack(part, dim=2) for part in heads(mixer.qkv, x))
    y, left = naive_stickbreaking_attn(q, k, v)
    own = v.repeat_interleave(q.shape[2] // v.shape[2], dim=2)
    return project(mixer.out_proj, (y + left[..., None] * own).flatten(2))
