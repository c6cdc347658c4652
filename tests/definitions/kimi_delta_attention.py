"""Kimi delta attention: the recurrence, Kimi Team 2025 (arXiv 2510.26692), Eq. 1, and its layer."""

import torch
from torch import Tensor

from tests.definitions.deltanet import convolved, norm_1, rms
from zoo.mixers.kimi_delta_attention import KimiDeltaAttention

PACKAGE = "fla-core: fla.ops.kda.naive.naive_recurrent_kda and fla.ops.kda.gate.naive_kda_gate"
PACKAGE_TOLERANCE = 1e-4  # they work in float32


def definition(m: KimiDeltaAttention, x: Tensor) -> Tensor:
    q, k, v, raw, beta = inputs(m, x)
    alpha = torch.exp(-torch.exp(m.A_log)[:, None] * torch.log1p(torch.exp(raw)))
    eye = torch.eye(m.head_dim, dtype=x.dtype)
    S, ys = x.new_zeros(x.shape[0], m.num_heads, m.head_dim, m.head_dim), []
    for t in range(x.shape[1]):
        k_t, v_t, b = k[:, t, :, :, None], v[:, t, :, :, None], beta[:, t, :, None, None]
        S = (eye - b * k_t @ k_t.mT) @ torch.diag_embed(alpha[:, t]) @ S + b * k_t @ v_t.mT
        ys.append((S.mT @ q[:, t, :, :, None])[..., 0] / m.head_dim**0.5)
    return output(m, torch.stack(ys, dim=1), x)


def package(m: KimiDeltaAttention, x: Tensor) -> Tensor:
    from fla.ops.kda.gate import naive_kda_gate
    from fla.ops.kda.naive import naive_recurrent_kda

    q, k, v, raw, beta = inputs(m, x)
    y, _ = naive_recurrent_kda(q, k, v, naive_kda_gate(raw, m.A_log), beta)
    return output(m, y.to(x.dtype), x)


def inputs(m: KimiDeltaAttention, x: Tensor) -> tuple[Tensor, ...]:
    """q, k, v and what the decay is made from: [B T H C]; beta: [B T H]."""
    mixed = convolved(m.qkv.proj.weight, m.qkv.conv.weight, x)
    q, k, v = mixed.reshape(*x.shape[:2], 3, m.num_heads, -1).unbind(2)
    raw = x @ m.decay_down.weight.T @ m.decay_up.weight.T + m.dt_bias
    return norm_1(q), norm_1(k), v, raw.reshape(q.shape), torch.sigmoid(x @ m.beta.weight.T)


def output(m: KimiDeltaAttention, y: Tensor, x: Tensor) -> Tensor:
    gate = torch.sigmoid(x @ m.gate_down.weight.T @ m.gate_up.weight.T + m.gate_up.bias)
    return (rms(y, m.norm).flatten(2) * gate) @ m.out_proj.weight.T
