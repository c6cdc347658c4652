"""Gated DeltaProduct: n Householder steps a token, Siems et al. 2025 (arXiv 2502.10297), Section 3."""

import torch
from torch import Tensor

from tests.definitions.deltanet import convolved, norm_1
from tests.definitions.gated_deltanet import output
from zoo.mixers.gated_deltaproduct import GatedDeltaProduct

PACKAGE = "fla-core: fla.ops.gated_delta_product.naive.naive_recurrent_gated_delta_product"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def inputs(m: GatedDeltaProduct, x: Tensor) -> tuple[Tensor, ...]:
    """q: [B T H C], k: [B T H n C], v: [B T H n V], beta: [B T H n], log alpha: [B T H]."""
    mixed, keys, n = convolved(m.qkv.proj.weight, m.qkv.conv.weight, x), m.d_model, m.num_householder
    q, k, v = mixed.tensor_split([keys, (1 + n) * keys], dim=-1)
    k, v = (z.unflatten(-1, (m.num_heads, n, -1)) for z in (k, v))
    beta = m.most * torch.sigmoid(x @ m.beta.weight.T).unflatten(-1, (m.num_heads, n))
    log_alpha = x.new_zeros(*x.shape[:2], m.num_heads)
    if m.forget is not None:
        step = torch.log1p(torch.exp(x @ m.forget.proj.weight.T + m.forget.dt_bias))
        log_alpha = -torch.exp(m.forget.A_log) * step
    return norm_1(q.unflatten(-1, (m.num_heads, -1))), norm_1(k), v, beta, log_alpha


def definition(m: GatedDeltaProduct, x: Tensor) -> Tensor:
    q, k, v, beta, log_alpha = inputs(m, x)
    S = x.new_zeros(x.shape[0], m.num_heads, v.shape[-1], m.head_dim)  # values by keys
    eye, ys = torch.eye(m.head_dim, dtype=x.dtype), []
    for t in range(x.shape[1]):
        S = torch.exp(log_alpha[:, t, :, None, None]) * S
        for j in range(m.num_householder):
            k_j, v_j, b = k[:, t, :, j, :, None], v[:, t, :, j, :, None], beta[:, t, :, j, None, None]
            S = S @ (eye - b * k_j @ k_j.mT) + b * v_j @ k_j.mT
        ys.append((S @ q[:, t, :, :, None])[..., 0] / m.head_dim**0.5)
    return output(m, torch.stack(ys, dim=1), x)


def package(m: GatedDeltaProduct, x: Tensor) -> Tensor:
    from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product

    q, k, v, beta, log_alpha = inputs(m, x)
    k, v, beta = (z.transpose(2, 3).flatten(1, 2) for z in (k, v, beta))
    scale, n = m.head_dim**-0.5, m.num_householder
    y, _ = naive_recurrent_gated_delta_product(q, k, v, log_alpha, beta, scale, num_householder=n)
    return output(m, y.to(x.dtype), x)
