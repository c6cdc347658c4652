"""RWKV-4: the weighted average as a sum over the past, Peng et al. 2023 (arXiv 2305.13048), Section 3."""

import torch
from torch import Tensor

from zoo.mixers.rwkv4 import RWKV4


def definition(mixer: RWKV4, x: Tensor) -> Tensor:
    return torch.stack([one(mixer, row) for row in x])


def one(m: RWKV4, x: Tensor) -> Tensor:
    """A sequence [T D]."""
    before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
    mu_k, mu_v, mu_r = 1 - m.shift.share
    k = (mu_k * x + (1 - mu_k) * before) @ m.key.weight.T
    v = (mu_v * x + (1 - mu_v) * before) @ m.value.weight.T
    r = (mu_r * x + (1 - mu_r) * before) @ m.receptance.weight.T
    w, ys = torch.exp(m.decay), []
    for t in range(len(x)):
        age = torch.arange(t - 1, -1, -1, dtype=x.dtype)[:, None]  # of the tokens 0 ... t-1, at t-1
        weights = torch.cat([torch.exp(-age * w + k[:t]), torch.exp(m.bonus + k[t])[None]])
        ys.append((weights * v[: t + 1]).sum(0) / weights.sum(0))
    return (torch.stack(ys) / (1 + torch.exp(-r))) @ m.out_proj.weight.T
