"""S4D: its complex recurrence, step by step, Gu et al. 2022 (arXiv 2206.11893), Eq. 2 and Section 3.

The gated linear layer over the outputs is that of the authors' code.
"""

import math

import torch
from torch import Tensor

from zoo.mixers.diagonal_ssm import DiagonalSSM
from zoo.mixers.s4d import S4D


def definition(mixer: S4D, x: Tensor) -> Tensor:
    return gated(mixer.out_proj, scanned(mixer.ssm, x))


def scanned(s: DiagonalSSM, x: Tensor) -> Tensor:
    """Of each channel of [B T D] a state space by itself."""
    A, dt = torch.complex(-torch.exp(s.A_log_real), s.A_imag), torch.exp(s.log_dt)[:, None]
    if s.bilinear:
        decay, drive = (1 + dt * A / 2) / (1 - dt * A / 2), dt / (1 - dt * A / 2)
    else:
        decay = torch.exp(dt * A)
        drive = (decay - 1) / A
    C = torch.complex(s.C[..., 0], s.C[..., 1])
    h, ys = torch.zeros(x.shape[0], *A.shape, dtype=A.dtype), []
    for x_t in x.unbind(1):
        h = decay * h + drive * x_t[..., None]
        ys.append((C * h + (C * h).conj()).real.sum(-1) + s.D * x_t)
    return torch.stack(ys, dim=1)


def gated(linear, u: Tensor) -> Tensor:
    """The first half of W gelu(u) + b, times the sigmoid of the second."""
    u = u * (1 + torch.erf(u / math.sqrt(2))) / 2
    both = torch.einsum("btd,ed->bte", u, linear.weight) + linear.bias
    size = both.shape[-1] // 2
    return both[..., :size] / (1 + torch.exp(-both[..., size:]))
