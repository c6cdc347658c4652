"""Gated DeltaNet: the recurrence, Yang et al. 2024 (arXiv 2412.06464), Eq. 10, and its layer (Figure 1)."""

import torch
from torch import Tensor

from tests.definitions.deltanet import convolved, norm_1, rms
from zoo.mixers.gated_deltanet import GatedDeltaNet

PACKAGE = "fla-core: fla.ops.gated_delta_rule.naive.naive_recurrent_gated_delta_rule"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def inputs(m: GatedDeltaNet, x: Tensor) -> tuple[Tensor, ...]:
    """q, k: [B T H C], v: [B T H V], beta, log alpha: [B T H]."""
    mixed, keys = convolved(m.qkv.proj.weight, m.qkv.conv.weight, x), m.num_heads * m.head_dim
    q, k, v = (z.unflatten(-1, (m.num_heads, -1)) for z in mixed.tensor_split([keys, 2 * keys], dim=-1))
    step = torch.log1p(torch.exp(x @ m.forget.proj.weight.T + m.forget.dt_bias))
    beta = m.most * torch.sigmoid(x @ m.beta.weight.T)
    return norm_1(q), norm_1(k), v, beta, -torch.exp(m.forget.A_log) * step


def output(m: GatedDeltaNet, y: Tensor, x: Tensor) -> Tensor:
    """From the heads' answers [B T H V] to [B T D]."""
    z = x @ m.output.gate.weight.T
    return (rms(y, m.output.norm).flatten(2) * z * torch.sigmoid(z)) @ m.output.proj.weight.T


def definition(m: GatedDeltaNet, x: Tensor) -> Tensor:
    q, k, v, beta, log_alpha = inputs(m, x)
    S = x.new_zeros(x.shape[0], m.num_heads, v.shape[-1], m.head_dim)  # values by keys
    ys = []
    for t in range(x.shape[1]):
        a, b = (z[:, t, :, None, None] for z in (torch.exp(log_alpha), beta))
        k_t, v_t = k[:, t, :, :, None], v[:, t, :, :, None]
        S = a * (S - b * (S @ k_t) @ k_t.mT) + b * v_t @ k_t.mT
        ys.append((S @ q[:, t, :, :, None])[..., 0] / m.head_dim**0.5)
    return output(m, torch.stack(ys, dim=1), x)


def package(m: GatedDeltaNet, x: Tensor) -> Tensor:
    from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule

    y, _ = naive_recurrent_gated_delta_rule(*inputs(m, x))
    return output(m, y.to(x.dtype), x)
