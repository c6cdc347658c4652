"""RWKV-5: the recurrence of the matrix-valued state, Peng et al. 2024 (arXiv 2404.05892), Section 4."""

import torch
from torch import Tensor

from zoo.mixers.rwkv5 import RWKV5
from zoo.mixers.wkv_heads import WkvHeads

PACKAGE = "fla-core: fla.ops.rwkv6.recurrent_naive.naive_recurrent_rwkv6"
PACKAGE_TOLERANCE = 2e-3  # it works in float32; after one token the norm leaves gradients that all but vanish


def definition(m: RWKV5, x: Tensor) -> Tensor:
    return output(m.heads, *inputs(m, x), recurrence)


def package(m: RWKV5, x: Tensor) -> Tensor:
    return output(m.heads, *inputs(m, x), packaged)


def inputs(m: RWKV5, x: Tensor) -> tuple[Tensor, ...]:
    before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
    mixed = [mu * x + (1 - mu) * before for mu in 1 - m.shift.share]
    return *mixed, torch.exp(-torch.exp(m.decay)) * torch.ones_like(x)


def recurrence(r: Tensor, k: Tensor, v: Tensor, w: Tensor, u: Tensor) -> Tensor:
    """r, k, v, w: [B T H C], u: [H C]."""
    S, ys = r.new_zeros(*r.shape[:1], *r.shape[2:], v.shape[-1]), []
    for t in range(r.shape[1]):
        written = k[:, t, :, :, None] @ v[:, t, :, None, :]
        ys.append((r[:, t, :, None, :] @ (torch.diag_embed(u) @ written + S))[:, :, 0])
        S = torch.diag_embed(w[:, t]) @ S + written
    return torch.stack(ys, dim=1)


def packaged(r: Tensor, k: Tensor, v: Tensor, w: Tensor, u: Tensor) -> Tensor:
    from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6

    parts = (s.transpose(1, 2) for s in (r, k, v, w.log()))
    return naive_recurrent_rwkv6(*parts, u, scale=1.0)[0].transpose(1, 2)


def output(m: WkvHeads, x_r: Tensor, x_k: Tensor, x_v: Tensor, x_g: Tensor, w: Tensor, wkv) -> Tensor:
    r, k, v = x_r @ m.receptance.weight.T, x_k @ m.key.weight.T, x_v @ m.value.weight.T
    y = wkv(*(s.reshape(*s.shape[:-1], -1, m.head_dim) for s in (r, k, v, w, m.bonus)))
    y = y / m.head_dim**0.5
    y = y - y.mean(-1, keepdim=True)
    y = (y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt()).flatten(2)
    g = x_g @ m.gate.weight.T
    return ((y * m.norm.weight + m.norm.bias) * g / (1 + torch.exp(-g))) @ m.out_proj.weight.T
