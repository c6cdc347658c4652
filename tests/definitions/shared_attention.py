"""Shared attention: softmax over [stream, embedding], Glorioso et al. 2024 (arXiv 2405.16712), Section 3.

Standing alone, the mixer reads its input as the embedding.  The softmax is `attend` of attention.py.
"""

import torch
from torch import Tensor

from tests.definitions.attention import attend, positioned, project
from zoo.mixers.shared_attention import SharedAttention


def definition(mixer: SharedAttention, x: Tensor, embedding: Tensor | None = None) -> Tensor:
    read = x if embedding is None else embedding
    read = read / (read.square().mean(-1, keepdim=True) + 1e-5).sqrt() * mixer.norm.weight
    q, k, v = positioned(mixer.qkv, torch.cat([x, read], dim=-1))
    y = attend(mixer.qkv, q, k, v, lambda t: range(t + 1))
    return project(mixer.out_proj, project(mixer.attn_proj, y))
