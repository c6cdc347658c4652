"""Gated attention: attention times a sigmoid, before W_o, Qiu et al. 2025 (arXiv 2505.06708), Section 3."""

import torch
from torch import Tensor

from tests.definitions import attention
from zoo.mixers.gated_attention import GatedAttention


def definition(m: GatedAttention, x: Tensor) -> Tensor:
    y = attention.attend(m.qkv, *attention.positioned(m.qkv, x), lambda t: range(t + 1))
    gate = torch.sigmoid(x @ m.gate.weight.T)
    return attention.project(m.out_proj, y * gate.repeat_interleave(y.shape[-1] // gate.shape[-1], dim=-1))
