"""Griffin's recurrent block, step by step: De et al. 2024 (arXiv 2402.19427), Eqs. 1 to 4 and Figure 2c."""

import math

import torch
from torch import Tensor

from tests.definitions.deltanet import causal
from zoo.mixers.rg_lru import RGLRU

PACKAGE = "fla-core: fla.ops.hgrn.naive.naive_recurrent_hgrn (the recurrence)"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def definition(mixer: RGLRU, x: Tensor) -> Tensor:
    return around(mixer, x, recurrence)


def package(mixer: RGLRU, x: Tensor) -> Tensor:
    from fla.ops.hgrn.naive import naive_recurrent_hgrn

    return around(mixer, x, lambda a, b: naive_recurrent_hgrn(b, a.log())[0])


def recurrence(a: Tensor, b: Tensor) -> Tensor:
    """h_t = a_t h_{t-1} + b_t, both [B T E]."""
    h, hs = 0, []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        hs.append(h)
    return torch.stack(hs, dim=1)


def around(m: RGLRU, x: Tensor, recur) -> Tensor:
    u, z = (x @ m.in_proj.weight.T + m.in_proj.bias).chunk(2, dim=-1)
    mixed = causal(m.conv.weight, u, m.conv.bias)
    width = m.d_inner // m.num_heads
    recurrence_gate, input_gate = [], []
    for h in range(m.num_heads):
        logits = mixed[..., h * width : (h + 1) * width] @ m.gate_weight[h] + m.gate_bias[h]
        recurrence_gate.append(torch.sigmoid(logits[..., :width]))
        input_gate.append(torch.sigmoid(logits[..., width:]))
    a = torch.sigmoid(m.Lambda) ** (8 * torch.cat(recurrence_gate, dim=-1))
    y = recur(a, torch.sqrt(1 - a * a) * torch.cat(input_gate, dim=-1) * mixed)
    gelu = z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2
    return (y * gelu) @ m.out_proj.weight.T + m.out_proj.bias
