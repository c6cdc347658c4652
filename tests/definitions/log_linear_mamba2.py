"""Log-linear Mamba-2: every pair of tokens by itself, Guo et al. 2025 (arXiv 2506.04761), Section 3."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from tests.definitions.deltanet import causal, rms, silu
from zoo.mixers.log_linear_mamba2 import LogLinearMamba2

PACKAGE = "fla-core: fla.ops.log_linear_attn.naive.naive_log_linear_attn"


def inputs(m: LogLinearMamba2, x: Tensor) -> tuple[Tensor, ...]:
    """The gate [B T E], C and B [B T N], x [B T H P], dt [B T H], scales [B T H L]."""
    E, N, H = m.d_inner, m.d_state, m.num_heads
    z, u, dt, levels = (x @ m.in_proj.weight.T).tensor_split([E, 2 * E + 2 * N, 2 * E + 2 * N + H], dim=-1)
    v, B, C = silu(causal(m.conv.weight, u, m.conv.bias)).tensor_split([E, E + N], dim=-1)
    scales = softplus(m.level_weight * levels.unflatten(-1, (H, -1)))
    return z, C, B, v.unflatten(-1, (H, -1)), softplus(dt + m.dt_bias), scales


def output(m: LogLinearMamba2, y: Tensor, v: Tensor, z: Tensor) -> Tensor:
    return rms((y + m.D[:, None] * v).flatten(2) * silu(z), m.norm) @ m.out_proj.weight.T


def pieces(t: int) -> list[tuple[int, int, int]]:
    """(level, from, to) of the pieces of the tokens up to t: the largest power of two comes first."""
    cut, start = [(0, t, t + 1)], 0
    for bit in range(t.bit_length() - 1, -1, -1):
        if t >= start + 2**bit:
            cut.append((bit + 1, start, start + 2**bit))
            start += 2**bit
    return cut


def definition(m: LogLinearMamba2, x: Tensor) -> Tensor:
    z, C, B, v, dt, scales = inputs(m, x)
    log_decay, ys = -torch.exp(m.A_log) * dt, []
    for t in range(x.shape[1]):
        y = torch.zeros_like(v[:, t])
        after = torch.cat([log_decay[:, 1 : t + 1], torch.zeros_like(dt[:, :1])], dim=1)
        after = after.flip(1).cumsum(1).flip(1)  # [B j H]: of the tokens after j, up to t
        match = torch.einsum("bn,bsn->bs", C[:, t], B[:, : t + 1])
        weights = torch.exp(after) * dt[:, : t + 1] * match[..., None]
        for level, start, stop in pieces(t):
            piece = torch.einsum("bsh,bshp->bhp", weights[:, start:stop], v[:, start:stop])
            y = y + scales[:, t, :, level, None] * piece
        ys.append(y)
    return output(m, torch.stack(ys, dim=1), v, z)


def package(m: LogLinearMamba2, x: Tensor) -> Tensor:
    from fla.ops.log_linear_attn.naive import naive_log_linear_attn

    z, C, B, v, dt, scales = inputs(m, x)
    C, B = C[:, :, None], B[:, :, None]  # one group for all heads
    y = naive_log_linear_attn(C, B, dt[..., None] * v, -torch.exp(m.A_log) * dt, scales)
    return output(m, y, v, z)
