"""LaCT: every softmax by itself, and an update a chunk with gradients by autograd (arXiv 2505.23884)."""

import torch
from torch import Tensor

from tests.definitions.attention import turned
from tests.definitions.deltanet import norm_1, rms, silu
from zoo.mixers.lact import LaCT


def definition(m: LaCT, x: Tensor) -> Tensor:
    q, k, v = (x @ m.qkv.weight.T).chunk(3, dim=-1)
    q, k = rms(q, m.norms[0]), rms(k, m.norms[1])
    fast_q, fast_k = (heads(m, each * m.slope[i] + m.shift[i]) for i, each in enumerate((q, k)))
    fast_q, fast_k = norm_1(silu(fast_q)), norm_1(silu(fast_k))
    q, k = heads(m, q), heads(m, k)
    if m.position == "rope":
        q, k, fast_q, fast_k = (
            torch.stack([turned(z[:, :, h], m.rope_base) for h in range(m.num_heads)], 2)
            for z in (q, k, fast_q, fast_k)
        )
    v, rates = heads(m, v), torch.log1p(torch.exp(x @ m.rates.weight.T + m.rates.bias))
    W, last, chunk, ys = [w.expand(x.shape[0], *w.shape) for w in m.inner], None, [], []
    for t in range(x.shape[1]):
        view = slice(max(0, t - m.window + 1), t + 1)
        weights = torch.softmax((q[:, t, None] * k[:, view]).sum(-1) / m.head_dim**0.5, dim=1)
        y = (weights[..., None] * v[:, view]).sum(1)
        scale = silu(x[:, t] @ m.scale.weight.T + m.scale.bias)[..., None]
        ys.append(y + scale * rms(f(W, fast_q[:, t]), m.norm))
        chunk.append(t)
        if len(chunk) == m.chunk_size:
            W, last = updated(m, x, W, last, [(fast_k[:, s], silu(v[:, s]), rates[:, s], s) for s in chunk])
            chunk = []
    return torch.stack(ys, 1).flatten(2) @ m.out_proj.weight.T


def updated(m: LaCT, x: Tensor, W: list, last: list | None, chunk: list) -> tuple[list, list]:
    step = [torch.zeros_like(w) for w in W]
    for k, v, rate, _ in chunk:
        gradients = torch.autograd.grad((f(W, k) * v).sum(), W, create_graph=True)
        each = rate.reshape(len(x), 3, m.num_heads)
        step = [
            s + each[:, i, :, None, None] * g for i, (s, g) in enumerate(zip(step, gradients, strict=True))
        ]
    if m.keep is not None and last is not None:
        shares = torch.stack([torch.sigmoid(x[:, s] @ m.keep.weight.T + m.keep.bias) for *_, s in chunk])
        step = [s + shares.mean(0)[..., None, None] * d for s, d in zip(step, last, strict=True)]
    moved = [w + s for w, s in zip(W, step, strict=True)]
    return [
        w / w.square().sum(-2, keepdim=True).sqrt() * first.square().sum(-2, keepdim=True).sqrt()
        for w, first in zip(moved, m.inner, strict=True)
    ], step


def f(W: list[Tensor], x: Tensor) -> Tensor:
    gate, linear = (torch.einsum("bhi,bhij->bhj", x, W[i]) for i in (0, 2))
    return torch.einsum("bhi,bhij->bhj", silu(gate) * linear, W[1])


def heads(m: LaCT, x: Tensor) -> Tensor:
    return x.reshape(*x.shape[:2], m.num_heads, -1)
