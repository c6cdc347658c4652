"""Gated slot attention: slots written token by token, Zhang et al. 2024 (arXiv 2409.07146), Eqs. 7, 8."""

import torch
from torch import Tensor

from tests.definitions.deltanet import rms, silu
from zoo.mixers.gated_slot_attention import GatedSlotAttention

PACKAGE = "fla-core: fla.ops.gsa.naive.naive_recurrent_gsa"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def definition(mixer: GatedSlotAttention, x: Tensor) -> Tensor:
    return around(mixer, x, recurrence)


def package(mixer: GatedSlotAttention, x: Tensor) -> Tensor:
    from fla.ops.gsa.naive import naive_recurrent_gsa

    return around(mixer, x, lambda q, k, v, a: naive_recurrent_gsa(q, k, v, 1 - a, a.log(), scale=1.0)[0])


def recurrence(q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
    """q, k and v [B T H C], a [B T H M] in (0, 1)."""
    keys = values = 0
    ys = []
    for t in range(q.shape[1]):
        keep = a[:, t, :, :, None]
        keys = keep * keys + (1 - keep) * k[:, t, :, None]
        values = keep * values + (1 - keep) * v[:, t, :, None]
        e = torch.exp(torch.einsum("bhmc,bhc->bhm", keys, q[:, t]))
        ys.append(torch.einsum("bhm,bhmc->bhc", e / e.sum(-1, keepdim=True), values))
    return torch.stack(ys, dim=1)


def around(m: GatedSlotAttention, x: Tensor, attend) -> Tensor:
    q, k, v = silu(x @ m.qkv.weight.T).chunk(3, dim=-1)
    a = torch.sigmoid(x @ m.keep.weight.T) ** (1 / m.temperature)
    y = attend(*(part.reshape(*x.shape[:2], m.num_heads, -1) for part in (q, k, v, a)))
    return rms(silu(y.flatten(2)), m.norm) @ m.out_proj.weight.T
