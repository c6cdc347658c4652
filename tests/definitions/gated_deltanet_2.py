"""Gated DeltaNet-2: one erase gate a key channel, one write gate a value channel (arXiv 2605.22791)."""

import torch
from torch import Tensor

from tests.definitions import kimi_delta_attention as kda
from zoo.mixers.gated_deltanet_2 import GatedDeltaNet2

PACKAGE = "fla-core: fla.ops.gdn2.naive.naive_recurrent_gdn2"
PACKAGE_TOLERANCE = 1e-4  # it works in float32


def inputs(m: GatedDeltaNet2, x: Tensor) -> tuple[Tensor, ...]:
    """q, k, v, log alpha, erase, write: [B T H C]."""
    q, k, v, raw, gates = kda.inputs(m, x)
    log_alpha = -torch.exp(m.A_log)[:, None] * torch.log1p(torch.exp(raw))
    erase, write = gates.reshape(*x.shape[:2], 2, m.num_heads, -1).unbind(2)
    return q, k, v, log_alpha, m.most * erase, write


def definition(m: GatedDeltaNet2, x: Tensor) -> Tensor:
    q, k, v, log_alpha, erase, write = inputs(m, x)
    eye = torch.eye(m.head_dim, dtype=x.dtype)
    S, ys = x.new_zeros(x.shape[0], m.num_heads, m.head_dim, m.head_dim), []
    for t in range(x.shape[1]):
        k_t = k[:, t, :, :, None]
        erased = eye - k_t @ (erase[:, t, :, :, None] * k_t).mT
        S = erased @ torch.diag_embed(log_alpha[:, t].exp()) @ S + k_t @ (write * v)[:, t, :, None, :]
        ys.append((S.mT @ q[:, t, :, :, None])[..., 0] / m.head_dim**0.5)
    return kda.output(m, torch.stack(ys, dim=1), x)


def package(m: GatedDeltaNet2, x: Tensor) -> Tensor:
    from fla.ops.gdn2.naive import naive_recurrent_gdn2

    return kda.output(m, naive_recurrent_gdn2(*inputs(m, x))[0].to(x.dtype), x)
