"""Landmark attention: the grouped softmax token by token, Mohtashami and Jaggi 2023 (arXiv 2305.16300), 3.

How a landmark comes by its key in one layer is ours (zoo/mixers/landmark.py): a token that reads its block.
"""

import math

import torch
from torch import Tensor

from tests.definitions.attention import heads, positioned, project, turned
from zoo.mixers.landmark import Landmark


def definition(mixer: Landmark, x: Tensor) -> Tensor:
    qkv, size = mixer.qkv, mixer.block_size
    q, k, v = positioned(qkv, x)
    marks = landmarks(mixer, k, v, x.shape[1])
    rows = []
    for b in range(len(x)):
        for t in range(x.shape[1]):
            row, start = [], t // size * size
            for h in range(qkv.num_heads):
                g = h * qkv.num_kv_heads // qkv.num_heads
                mark = torch.stack([mark[g][b] for mark in marks[: t // size]]) if start else k[g][b, :0]
                row.append(grouped(mixer, q[h][b, t], k[g][b, : t + 1], v[g][b, : t + 1], mark))
            rows.append(torch.cat(row))
    return project(mixer.out_proj, torch.stack(rows).reshape(x.shape))


def grouped(mixer: Landmark, q: Tensor, k: Tensor, v: Tensor, mark: Tensor) -> Tensor:
    """One token's output: all tokens up to it [t+1 C], the landmarks of the blocks before its own [U C]."""
    past = len(mark) * mixer.block_size
    token = torch.exp((k * q).sum(-1) / math.sqrt(len(q)))
    gate = torch.exp((mark * q).sum(-1) / math.sqrt(len(q)))
    scores = gate.tolist()
    kept = sorted(range(len(mark)), key=lambda j: (-scores[j], j))[: mixer.top_k]
    gate = gate * torch.tensor([float(j in kept) for j in range(len(mark))], dtype=gate.dtype)
    total = token[past:].sum() + gate.sum()
    inside = token[:past].reshape(len(mark), mixer.block_size)
    inside = inside / inside.sum(1, keepdim=True) * gate[:, None] / total
    return torch.cat([inside.flatten(), token[past:] / total]) @ v


def landmarks(mixer: Landmark, k: list[Tensor], v: list[Tensor], length: int) -> list[list[Tensor]]:
    """The key [B C] of each complete block's landmark, for each head of keys."""
    qkv, size, found = mixer.qkv, mixer.block_size, []
    for j in range(length // size):
        block, place = slice(j * size, (j + 1) * size), (j + 1) * size - 1
        query = at(mixer, heads(qkv, mixer.landmark[None, None])[0], place)
        read = []
        for h in range(qkv.num_heads):
            g = h * qkv.num_kv_heads // qkv.num_heads
            weights = torch.exp((k[g][:, block] * query[h]).sum(-1) / math.sqrt(qkv.head_dim))
            read.append(torch.einsum("bs,bsc->bc", weights, v[g][:, block]) / weights.sum(1, keepdim=True))
        token = mixer.landmark + project(mixer.out_proj, torch.cat(read, dim=-1)[:, None])
        token = token / (token.square().mean(-1, keepdim=True) + torch.finfo(token.dtype).eps).sqrt()
        found.append([key[:, 0] for key in at(mixer, heads(qkv, token)[1], place)])
    return found


def at(mixer: Landmark, parts: list[Tensor], place: int) -> list[Tensor]:
    """[B 1 C] each, turned to the position `place`."""
    qkv = mixer.qkv
    if qkv.position == "none":
        return parts
    turn = (qkv.rope_base, qkv.rope_fraction)
    return [turned(part.expand(-1, place + 1, -1), *turn)[:, place:] for part in parts]
