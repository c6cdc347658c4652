"""H3: two state spaces, step by step, between gates, Fu et al. 2023 (arXiv 2212.14052), Algorithm 1.

The diagonal one is S4D under the bilinear rule (arXiv 2206.11893).
"""

import torch
from torch import Tensor

from zoo.mixers.diagonal_ssm import DiagonalSSM
from zoo.mixers.h3 import H3


def definition(mixer: H3, x: Tensor) -> Tensor:
    size, p = mixer.d_model, mixer.head_dim
    heads = size // p
    qkv = torch.einsum("btd,ed->bte", x, mixer.qkv_proj.weight) + mixer.qkv_proj.bias
    q, k, v = qkv[..., :size], qkv[..., size : 2 * size], qkv[..., 2 * size :]
    k = shifted(mixer, k)
    columns = [0] * size
    for i in range(p):  # channel i of head h is i * heads + h
        for j in range(p):
            left, right = slice(i * heads, (i + 1) * heads), slice(j * heads, (j + 1) * heads)
            kept = diagonal(mixer.keep, k[..., left] * v[..., right])
            columns[j] = columns[j] + q[..., left] * kept
    y = torch.cat(columns[:p], dim=-1)
    return torch.einsum("btd,ed->bte", y, mixer.out_proj.weight) + mixer.out_proj.bias


def shifted(mixer: H3, k: Tensor) -> Tensor:
    """x <- S x + B k_t, out C x + D k_t; S moves every entry by one place."""
    s = mixer.shift
    x, ys = k.new_zeros(*k[:, 0].shape, mixer.d_state), []
    for k_t in k.unbind(1):
        x = torch.cat([torch.zeros_like(x[..., :1]), x[..., :-1]], dim=-1) + s.B * k_t[..., None]
        ys.append((s.C * x).sum(-1) + s.D * k_t)
    return torch.stack(ys, dim=1)


def diagonal(s: DiagonalSSM, u: Tensor) -> Tensor:
    """[B T H], a state space each: x <- (1 + dt A / 2) / (1 - dt A / 2) x + dt / (1 - dt A / 2) u_t."""
    A = torch.complex(-torch.exp(s.A_log_real), s.A_imag)
    half = torch.exp(s.log_dt)[:, None] / 2 * A
    C = torch.complex(s.C[..., 0], s.C[..., 1])
    x, ys = torch.zeros(*u[:, 0].shape, A.shape[1], dtype=A.dtype), []
    for u_t in u.unbind(1):
        drive = torch.exp(s.log_dt)[:, None] / (1 - half)
        x = (1 + half) / (1 - half) * x + drive * u_t[..., None]
        ys.append(2 * (C * x).real.sum(-1) + s.D * u_t)
    return torch.stack(ys, dim=1)
