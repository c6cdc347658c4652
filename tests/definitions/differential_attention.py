"""Differential attention: every pair of softmaxes by itself, Ye et al. 2024 (arXiv 2410.05258), Section 2."""

import torch
from torch import Tensor

from tests.definitions import attention
from tests.definitions.deltanet import rms
from zoo.mixers.differential_attention import DifferentialAttention


def definition(m: DifferentialAttention, x: Tensor) -> Tensor:
    q, k, v = attention.positioned(m.qkv, x)
    past = lambda t: range(t + 1)  # noqa: E731
    # softmaxes over each half of the values: [B T 2H C]
    left, right = (
        attention.attend(m.qkv, q, k, [v[i - i % 2 + half] for i in range(len(v))], past) for half in (0, 1)
    )
    y = torch.stack([part.reshape(*x.shape[:2], -1, 2, m.qkv.head_dim) for part in (left, right)], dim=-2)
    y = y.flatten(-2)  # [B T H 2 2C]
    one, two, three, four = m.exponents
    share = torch.exp((one * two).sum()) - torch.exp((three * four).sum()) + m.first
    y = rms(y[..., 0, :] - share * y[..., 1, :], m.norm) * (1 - m.first)
    return attention.project(m.out_proj, y.flatten(2))
