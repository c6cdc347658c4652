"""ScatterBrain: each weight by itself, exact or estimated, one sum, Chen et al. 2021 (arXiv 2110.15343)."""

import math

import torch
from torch import Tensor

from tests.definitions.attention import positioned, project
from tests.definitions.linear_attention import favor
from zoo.mixers.scatterbrain import ScatterBrain


def definition(mixer: ScatterBrain, x: Tensor) -> Tensor:
    q, k, v = positioned(mixer.qkv, x)
    columns = []
    for h in range(mixer.num_heads):
        rows = []
        for t in range(x.shape[1]):
            start = max(0, t - mixer.window + 1)
            exact = (q[h][:, t, None] * k[h][:, start : t + 1]).sum(-1) / math.sqrt(mixer.qkv.head_dim)
            estimated = favor(mixer.map, q[h][:, t, None], k[h][:, :start], t)
            weights = torch.cat([estimated, exact.exp()], dim=1)
            rows.append((weights[..., None] * v[h][:, : t + 1]).sum(1) / weights.sum(1, keepdim=True))
        columns.append(torch.stack(rows, dim=1))
    return project(mixer.out_proj, torch.cat(columns, dim=-1))
