"""Comba: the recurrence, with feedback to state and output, and its layer, Hu et al. 2025 (arXiv 2506.02475).

fla's own recurrent reference lets the feedback read the memory after it has forgotten, which its kernels and
its chunked reference do not.
"""

import torch
from torch import Tensor

from tests.definitions.deltanet import convolved, norm_1, rms
from zoo.mixers.comba import Comba

PACKAGE = "fla-core: fla.ops.comba.naive.naive_chunk_comba"
PACKAGE_TOLERANCE = 1e-4  # it works in float32, and of one token the norm leaves a gradient near 0


def inputs(m: Comba, x: Tensor) -> tuple[Tensor, ...]:
    """q, k: [B T H C], v: [B T H V], b k: [B T H C], log alpha, beta: [B T H]."""
    mixed, keys = convolved(m.qkv.proj.weight, m.qkv.conv.weight, x), m.num_heads * m.head_dim
    q, k, v = (z.unflatten(-1, (m.num_heads, -1)) for z in mixed.tensor_split([keys, 2 * keys], dim=-1))
    step = torch.log1p(torch.exp(x @ m.forget.proj.weight.T + m.forget.dt_bias))
    beta = 1 / (1 + torch.exp(-(x @ m.beta.weight.T)))
    q, k = norm_1(q), norm_1(k)
    b = 1 / (1 + torch.exp(-m.feedback))
    return q - m.correction[:, None] * k, k, v, b[:, None] * k, -torch.exp(m.forget.A_log) * step, beta


def output(m: Comba, y: Tensor, x: Tensor) -> Tensor:
    return (rms(y, m.norm).flatten(2) / (1 + torch.exp(-(x @ m.gate.weight.T)))) @ m.out_proj.weight.T


def definition(m: Comba, x: Tensor) -> Tensor:
    q, k, v, p, log_alpha, beta = inputs(m, x)
    S = x.new_zeros(x.shape[0], m.num_heads, v.shape[-1], m.head_dim)  # values by keys
    ys = []
    for t in range(x.shape[1]):
        a, b = (z[:, t, :, None, None] for z in (torch.exp(log_alpha), beta))
        k_t, p_t, v_t = (z[:, t, :, :, None] for z in (k, p, v))
        S = a * S + b * (v_t - S @ p_t) @ k_t.mT
        ys.append((S @ q[:, t, :, :, None])[..., 0] / m.head_dim**0.5)
    return output(m, torch.stack(ys, dim=1), x)


def package(m: Comba, x: Tensor) -> Tensor:
    from fla.ops.comba.naive import naive_chunk_comba

    y, _ = naive_chunk_comba(*inputs(m, x))
    return output(m, y.to(x.dtype), x)
