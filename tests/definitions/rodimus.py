"""Rodimus: one gate that forgets and writes, step by step, He et al. 2024 (arXiv 2410.06577), Section 3."""

import torch
from torch import Tensor

from tests.definitions.deltanet import causal, rms, silu
from zoo.mixers.rodimus import Rodimus


def definition(m: Rodimus, x: Tensor) -> Tensor:
    u, gate = (x @ m.in_proj.weight.T).chunk(2, dim=-1)
    c = silu(causal(m.conv.weight, u, m.conv.bias))
    q, k = (c @ m.qk.weight.T).chunk(2, dim=-1)
    g, tau = (c @ m.gates.weight.T + m.gates.bias).chunk(2, dim=-1)
    g, tau = torch.log1p(torch.exp(g)), torch.sigmoid(tau)
    v = torch.sigmoid(u @ m.value_down.weight.T @ m.value_up.weight.T + m.value_up.bias) * u
    S, ys = x.new_zeros(x.shape[0], m.feature_dim, m.d_inner), []
    for t in range(x.shape[1]):
        key = k[:, t] / k[:, t].square().sum(-1, keepdim=True).sqrt() * g[:, t] ** tau[:, t]
        S = torch.exp(-g * tau)[:, t, :, None] * S + key[:, :, None] * v[:, t, None, :]
        ys.append(torch.einsum("bnv,bn->bv", S, q[:, t]) / m.feature_dim**0.5 + m.skip * c[:, t])
    return rms(torch.stack(ys, dim=1) * silu(gate), m.norm) @ m.out_proj.weight.T
