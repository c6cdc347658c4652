"""Log-linear Gated DeltaNet: each token's write carried on by itself, Guo et al. 2025 (arXiv 2506.04761)."""

import torch
from torch import Tensor

from tests.definitions import gated_deltanet
from tests.definitions.log_linear_mamba2 import pieces
from zoo.mixers.log_linear_gated_deltanet import LogLinearGatedDeltaNet


def definition(m: LogLinearGatedDeltaNet, x: Tensor) -> Tensor:
    q, k, v, beta, log_alpha = gated_deltanet.inputs(m, x)
    raw = m.level_weight * (x @ m.levels.weight.T).reshape(*x.shape[:2], m.num_heads, -1)
    scales = torch.log1p(torch.exp(raw))
    writes, ys = x.new_zeros(x.shape[0], 0, m.num_heads, m.head_dim, v.shape[-1]), []
    for t in range(x.shape[1]):
        key, b = k[:, t, :, :, None], beta[:, t, :, None, None]
        step = torch.exp(log_alpha[:, t, :, None, None]) * (torch.eye(m.head_dim).double() - b * key @ key.mT)
        writes = torch.cat([step[:, None] @ writes, (b * key @ v[:, t, :, None, :])[:, None]], dim=1)
        level = {j: level for level, start, stop in pieces(t) for j in range(start, stop)}
        scale = torch.stack([scales[:, t, :, level[j]] for j in range(t + 1)], dim=1)
        S = (scale[..., None, None] * writes).sum(1)
        ys.append(torch.einsum("bhkv,bhk->bhv", S, q[:, t]) / m.head_dim**0.5)
    return gated_deltanet.output(m, torch.stack(ys, dim=1), x)
