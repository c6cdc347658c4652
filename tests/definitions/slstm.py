"""sLSTM: every gate and sum without its stabiliser, Beck et al. 2024 (arXiv 2405.04517), Eqs. 8 to 14."""

import torch
from torch import Tensor

from tests.definitions.deltanet import causal, silu
from zoo.mixers.slstm import SLSTM


def definition(m: SLSTM, x: Tensor) -> Tensor:
    mixed, P = silu(causal(m.conv.weight, x, m.conv.bias)), m.head_dim
    bias = m.bias.reshape(m.num_heads, 4, P)
    heads = []
    for h in range(m.num_heads):
        own, W, R = slice(h * P, (h + 1) * P), m.weight[h].split(P, dim=1), m.recurrent[h].split(P, dim=1)
        y, c, n, ys = 0 * x[:, 0, own], 0, 0, []
        for t in range(x.shape[1]):
            sees = (mixed, mixed, x, x)
            i, f, z, o = (sees[g][:, t, own] @ W[g] + y @ R[g] + bias[h, g] for g in range(4))
            f = torch.sigmoid(f)
            c, n = f * c + torch.exp(i) * torch.tanh(z), f * n + torch.exp(i)
            y = torch.sigmoid(o) * c / n
            ys.append(y)
        ys = torch.stack(ys, dim=1)
        spread = torch.sqrt(ys.var(-1, unbiased=False, keepdim=True) + 1e-5)
        heads.append((ys - ys.mean(-1, keepdim=True)) / spread)
    return torch.cat(heads, dim=-1) * m.norm_weight
