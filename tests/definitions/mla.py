"""Multi-head latent attention, each head written out, DeepSeek-V2 (arXiv 2405.04434), Eq. 9 to 19."""

import math

import torch
from torch import Tensor

from tests.definitions.attention import project, turned
from zoo.mixers.mla import MLA


def definition(mixer: MLA, x: Tensor) -> Tensor:
    heads, size, rank = mixer.num_heads, mixer.head_dim, mixer.kv_rank
    down = project(mixer.down_proj, x)
    latent, shared = down[..., :rank], positioned(mixer, down[..., rank:])
    latent = latent / (latent.square().mean(-1, keepdim=True) + mixer.norm.eps).sqrt() * mixer.norm.weight
    keys, values = project(mixer.key_proj, latent), project(mixer.value_proj, latent)
    queries, columns = project(mixer.q_proj, x).chunk(heads, dim=-1), []
    for h in range(heads):
        q = torch.cat([queries[h][..., :size], positioned(mixer, queries[h][..., size:])], dim=-1)
        k, v = torch.cat([keys.split(size, -1)[h], shared], dim=-1), values.split(size, -1)[h]
        rows = []
        for t in range(x.shape[1]):
            logits = (q[:, t, None] * k[:, : t + 1]).sum(-1) / math.sqrt(size + mixer.rope_dim)
            weights = logits.exp() / logits.exp().sum(-1, keepdim=True)
            rows.append((weights[..., None] * v[:, : t + 1]).sum(1))
        columns.append(torch.stack(rows, dim=1))
    return project(mixer.out_proj, torch.cat(columns, dim=-1))


def positioned(mixer: MLA, x: Tensor) -> Tensor:
    return turned(x, mixer.rope_base) if mixer.rope_dim else x
