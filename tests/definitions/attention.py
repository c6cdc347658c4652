"""Softmax attention: every softmax by itself, Vaswani et al. 2017 (arXiv 1706.03762), Eq. 1.

Shared keys and values (arXiv 2305.13245), rotary positions as a product of complex numbers (arXiv 2104.09864)
and linear biases (arXiv 2108.12409) are written out here too; other definitions start from these.
"""

import math

import torch
from torch import Tensor

from zoo.mixers.attention import Attention
from zoo.mixers.projections import QueryKeyValue

PACKAGE = "fla-core: fla.ops.attn.naive.naive_parallel_attn, fla.modules.rotary.ops.rotary_embedding_ref"


def definition(mixer: Attention, x: Tensor) -> Tensor:
    q, k, v = positioned(mixer.qkv, x)
    return project(mixer.out_proj, attend(mixer.qkv, q, k, v, lambda t: range(t + 1)))


def package(mixer: Attention, x: Tensor, window: int | None = None) -> Tensor:
    """Steady forget gates are linear biases."""
    from fla.modules.rotary.ops import rotary_embedding_ref
    from fla.ops.attn.naive import naive_parallel_attn

    qkv = mixer.qkv
    q, k, v = (torch.stack(part, dim=2) for part in heads(qkv, x))
    if qkv.position == "rope":
        size = round(qkv.rope_fraction * qkv.head_dim)
        rates = qkv.rope_base ** (-torch.arange(0, size, 2).double() / size)
        angle = torch.arange(x.shape[1])[:, None] * rates
        q, k = (rotary_embedding_ref(part, angle.cos(), angle.sin()) for part in (q, k))
    bias = None
    if qkv.position == "alibi":
        bias = -torch.tensor(slopes(qkv.num_heads), dtype=x.dtype).expand(*x.shape[:2], -1)
    return project(mixer.out_proj, naive_parallel_attn(q, k, v, window_size=window, g=bias)[0].flatten(2))


def attend(qkv: QueryKeyValue, q: list, k: list, v: list, seen) -> Tensor:
    """[B T D]: query t looks at the positions `seen(t)` with softmax(q k / sqrt C)."""
    rows = []
    for t in range(q[0].shape[1]):
        past = list(seen(t))
        row = []
        for h in range(qkv.num_heads):
            g = h * qkv.num_kv_heads // qkv.num_heads
            logits = (q[h][:, t, None] * k[g][:, past]).sum(-1) / math.sqrt(qkv.head_dim)
            if qkv.position == "alibi":
                logits = logits - slopes(qkv.num_heads)[h] * (t - torch.tensor(past))
            weights = (logits - logits.amax(-1, keepdim=True)).exp()
            weights = weights / weights.sum(-1, keepdim=True)
            row.append((weights[..., None] * v[g][:, past]).sum(1))
        rows.append(torch.cat(row, dim=-1))
    return torch.stack(rows, dim=1)


def project(linear, y: Tensor) -> Tensor:
    y = torch.einsum("btd,ed->bte", y, linear.weight)
    return y if linear.bias is None else y + linear.bias


def heads(qkv: QueryKeyValue, x: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Queries, keys and values, a list of heads [B T C] each."""
    parts = list(project(qkv.proj, x).split(qkv.head_dim, dim=-1))
    first, second = qkv.num_heads, qkv.num_heads + qkv.num_kv_heads
    return parts[:first], parts[first:second], parts[second:]


def positioned(qkv: QueryKeyValue, x: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    q, k, v = heads(qkv, x)
    if qkv.position == "rope":
        q, k = ([turned(part, qkv.rope_base, qkv.rope_fraction) for part in parts] for parts in (q, k))
    return q, k, v


def turned(x: Tensor, base: float, fraction: float = 1.0) -> Tensor:
    """Token t of [B T C]: channels i and i + R/2, as a complex number, times exp(i t base^(-2i/R))."""
    size = round(fraction * x.shape[-1])
    rates = torch.tensor([base ** (-2 * i / size) for i in range(size // 2)], dtype=x.dtype)
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * rates
    pair = torch.complex(x[..., : size // 2], x[..., size // 2 : size]) * torch.exp(1j * angle)
    return torch.cat([pair.real, pair.imag, x[..., size:]], dim=-1)


def slopes(num_heads: int) -> list[float]:
    """2^(-8/H), 2^(-16/H), ...; what is no power of two borrows from the next one, as the paper's code."""
    if num_heads & (num_heads - 1) == 0:
        return [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]
    lower = 1 << (num_heads.bit_length() - 1)
    return slopes(lower) + slopes(2 * lower)[0::2][: num_heads - lower]
