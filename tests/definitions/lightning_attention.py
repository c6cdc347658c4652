"""Lightning Attention: the recurrence and the layer of MiniMax-01 (arXiv 2501.08313), Section 2.2."""

import math

import torch
from torch import Tensor

from zoo.mixers.lightning_attention import LightningAttention

PACKAGE = "fla-core: fla.ops.simple_gla.naive.naive_recurrent_simple_gla"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def parts(m: LightningAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k: [B T H C], v: [B T H V]."""
    z = x @ m.qkv.weight.T
    silu = z / (1 + torch.exp(-z))
    keys = m.num_heads * m.head_dim
    qk = (silu if m.activation in ("silu", "keys") else z)[..., : 2 * keys]
    v = (silu if m.activation in ("silu", "values") else z)[..., 2 * keys :]
    q, k, v = (part.unflatten(-1, (m.num_heads, -1)) for part in (qk[..., :keys], qk[..., keys:], v))
    return q, k, v


def rate(m: LightningAttention, h: int) -> float:
    return m.share * 2 ** (-8 * (h + 1) / m.num_heads)


def output(m: LightningAttention, y: Tensor, x: Tensor) -> Tensor:
    y = y.flatten(2)
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6) * m.norm.weight
    if m.gate is not None:
        y = y / (1 + torch.exp(-(x @ m.gate.weight.T)))
    return y @ m.out_proj.weight.T


def definition(m: LightningAttention, x: Tensor) -> Tensor:
    q, k, v = parts(m, x)
    heads = []
    for h in range(m.num_heads):
        S, ys = torch.zeros_like(k[:, 0, h, :, None] * v[:, 0, h, None, :]), []
        for t in range(x.shape[1]):
            S = math.exp(-rate(m, h)) * S + k[:, t, h, :, None] * v[:, t, h, None, :]
            ys.append((q[:, t, h, :, None] * S).sum(1))
        heads.append(torch.stack(ys, dim=1))
    return output(m, torch.stack(heads, dim=2), x)


def package(m: LightningAttention, x: Tensor) -> Tensor:
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla

    rates = torch.tensor([-rate(m, h) for h in range(m.num_heads)], dtype=x.dtype)
    y, _ = naive_recurrent_simple_gla(*parts(m, x), rates.expand(*x.shape[:2], -1), scale=1.0)
    return output(m, y.to(x.dtype), x)
