"""RWKV-7: the recurrence of the state, Peng et al. 2025 (arXiv 2503.14456), Section 4."""

import math

import torch
from torch import Tensor

from zoo.mixers.rwkv7 import RWKV7

PACKAGE = "fla-core: fla.ops.generalized_delta_rule.dplr.naive.dplr_recurrence"
PACKAGE_TOLERANCE = 1e-4  # it works in float32


def definition(mixer: RWKV7, x: Tensor) -> Tensor:
    return with_value(mixer, x, None)[0]


def with_value(m: RWKV7, x: Tensor, v_0: Tensor | None) -> tuple[Tensor, Tensor]:
    """The outputs and the layer's own v; v_0 is the lowest layer's, None for no value residual."""
    return output(m, x, recurrence, v_0)


def recurrence(r: Tensor, w: Tensor, k: Tensor, v: Tensor, kappa: Tensor, a: Tensor) -> Tensor:
    """All [B T H C].  The paper's wkv has values in rows and keys in columns."""
    wkv, ys = 0 * outer(v[:, 0], k[:, 0]), []
    for t in range(r.shape[1]):
        transition = torch.diag_embed(w[:, t]) - outer(kappa[:, t], a[:, t] * kappa[:, t])
        wkv = wkv @ transition + outer(v[:, t], k[:, t])
        ys.append((wkv @ r[:, t, :, :, None]).squeeze(-1))
    return torch.stack(ys, dim=1)


def package(mixer: RWKV7, x: Tensor) -> Tensor:
    from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence

    def through(r: Tensor, w: Tensor, k: Tensor, v: Tensor, kappa: Tensor, a: Tensor) -> Tensor:
        r = r * r.shape[-1] ** 0.5  # undoes its scale
        parts = (s.transpose(1, 2).float() for s in (r, k, v, -kappa, a * kappa, w.log()))
        return dplr_recurrence(*parts)[0].transpose(1, 2).to(x.dtype)

    return output(mixer, x, through, None)[0]


def output(m: RWKV7, x: Tensor, wkv, v_0: Tensor | None) -> tuple[Tensor, Tensor]:
    before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
    x_r, x_w, x_k, x_v, x_a, x_g = (x + (before - x) * share for share in m.shift.share)
    r, k, own = (x @ m.weight.T for x, m in ((x_r, m.receptance), (x_k, m.key), (x_v, m.value)))
    a = torch.sigmoid(m.rate.base + x_a @ m.rate.down @ m.rate.up)
    w = torch.exp(-math.exp(-0.5) * torch.sigmoid(m.decay.base + torch.tanh(x_w @ m.decay.down) @ m.decay.up))
    g = torch.sigmoid(x_g @ m.gate.down) @ m.gate.up
    v = own
    if m.share is not None and v_0 is not None:
        share = torch.sigmoid(m.share.base + x_v @ m.share.down @ m.share.up)
        v = (1 - share) * own + share * v_0
    kappa, k = k * m.k_k, k * (1 - m.k_a + a * m.k_a)
    r, w, k, v, kappa, a, r_k = (s.unflatten(-1, (-1, m.head_dim)) for s in (r, w, k, v, kappa, a, m.r_k))
    kappa = kappa / (kappa.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    y = wkv(r, w, k, v, kappa, a)
    y = y - y.mean(-1, keepdim=True)
    y = y / (y.square().mean(-1, keepdim=True) + 1e-5 * m.head_dim).sqrt()
    y = y.flatten(2) * m.norm.weight + m.norm.bias
    y = y + ((r * r_k * k).sum(-1, keepdim=True) * v).flatten(2)
    return (g * y) @ m.out_proj.weight.T, own


def outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]
