"""A long convolution: the sum over its squashed taps, Fu et al. 2023 (arXiv 2302.06646), Eq. 3."""

import math

import torch
from torch import Tensor

from zoo.mixers.long_conv import LongConv


def definition(mixer: LongConv, x: Tensor) -> Tensor:
    taps = mixer.conv.taps
    k = torch.where(taps.abs() > mixer.conv.squash, taps - mixer.conv.squash * taps.sign(), 0.0 * taps)
    rows = []
    for t in range(x.shape[1]):
        reach = range(min(t + 1, mixer.max_len))
        rows.append(sum(k[:, r] * x[:, t - r] for r in reach) + mixer.conv.skip * x[:, t])
    u = torch.stack(rows, dim=1)
    u = u * (1 + torch.erf(u / math.sqrt(2))) / 2
    both = torch.einsum("btd,ed->bte", u, mixer.out_proj.weight) + mixer.out_proj.bias
    return both[..., : mixer.d_model] / (1 + torch.exp(-both[..., mixer.d_model :]))
