"""Mamba-2: the scalar-decay recurrence step by step, Dao and Gu 2024 (arXiv 2405.21060), Eq. 2, Sec. 7."""

import torch
from torch import Tensor

from tests.definitions.deltanet import causal, silu
from zoo.mixers.mamba2 import Mamba2

PACKAGE = "fla-core: fla.ops.simple_gla.naive.naive_recurrent_simple_gla (the recurrence)"
PACKAGE_TOLERANCE = 1e-4  # it works in float32


def definition(mixer: Mamba2, x: Tensor) -> Tensor:
    return around(mixer, x, recurrence)


def package(mixer: Mamba2, x: Tensor) -> Tensor:
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla

    def theirs(x: Tensor, B: Tensor, C: Tensor, dt: Tensor, A: Tensor) -> Tensor:
        return naive_recurrent_simple_gla(C, B, dt[..., None] * x, dt * A, scale=1.0)[0]

    return around(mixer, x, theirs)


def recurrence(x: Tensor, B: Tensor, C: Tensor, dt: Tensor, A: Tensor) -> Tensor:
    """x [B T H P], B and C [B T H N], dt [B T H], A [H]."""
    h, ys = 0, []
    for t in range(x.shape[1]):
        write = torch.einsum("bh,bhp,bhn->bhpn", dt[:, t], x[:, t], B[:, t])
        h = torch.exp(dt[:, t] * A)[..., None, None] * h + write
        ys.append(torch.einsum("bhpn,bhn->bhp", h, C[:, t]))
    return torch.stack(ys, dim=1)


def around(m: Mamba2, x: Tensor, scan) -> Tensor:
    inner, maps = m.d_inner, m.num_groups * m.d_state
    z, u, dt = (x @ m.in_proj.weight.T).split([inner, inner + 2 * maps, m.num_heads], dim=-1)
    xs, B, C = silu(causal(m.conv.weight, u, m.conv.bias)).split([inner, maps, maps], dim=-1)
    xs = xs.reshape(*x.shape[:2], m.num_heads, m.head_dim)
    group = torch.arange(m.num_heads) // (m.num_heads // m.num_groups)  # of each head
    B, C = (s.reshape(*x.shape[:2], m.num_groups, m.d_state)[:, :, group] for s in (B, C))
    dt = torch.log1p(torch.exp(dt + m.dt_bias))
    y = scan(xs, B, C, dt, -torch.exp(m.A_log)) + m.D[:, None] * xs
    y = (y.flatten(2) * silu(z)).reshape(*x.shape[:2], m.num_groups, -1)
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5)
    return (y.flatten(2) * m.norm_weight) @ m.out_proj.weight.T
