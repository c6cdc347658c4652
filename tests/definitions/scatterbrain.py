"""ScatterBrain: each weight by itself, exact or estimated, one sum, Chen et al. 2021 (arXiv 2110.15343)."""

import math

import torch
from torch import Tensor

from tests.definitions.attention import positioned, project
from zoo.mixers.scatterbrain import ScatterBrain


def definition(mixer: ScatterBrain, x: Tensor) -> Tensor:
    q, k, v = positioned(mixer.qkv, x)
    columns = []
    for h in range(mixer.num_heads):
        rows = []
        for t in range(x.shape[1]):
            start = max(0, t - mixer.window + 1)
            exact = (q[h][:, t, None] * k[h][:, start : t + 1]).sum(-1) / math.sqrt(mixer.qkv.head_dim)
            estimated = favor(mixer.map.projection.T, q[h][:, t, None], k[h][:, :start])
            weights = torch.cat([estimated, exact.exp()], dim=1)
            rows.append((weights[..., None] * v[h][:, : t + 1]).sum(1) / weights.sum(1, keepdim=True))
        columns.append(torch.stack(rows, dim=1))
    return project(mixer.out_proj, torch.cat(columns, dim=-1))


def favor(rows: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """The mean over rows w of exp(w q' - q'^2 / 2) exp(w k' - k'^2 / 2), q' = q / C^(1/4)."""
    q, k = (part / part.shape[-1] ** 0.25 for part in (q, k))
    lengths = (q.square().sum(-1) + k.square().sum(-1)) / 2
    return sum(torch.exp(((q + k) * w).sum(-1) - lengths) for w in rows) / len(rows)
