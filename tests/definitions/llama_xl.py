"""Llama-XL: each segment over the cache of the last one, Forgetting Curve (arXiv 2410.04727), App. D.2."""

import torch
from torch import Tensor

from tests.definitions.attention import heads, project, turned
from zoo.mixers.llama_xl import LlamaXL


def definition(mixer: LlamaXL, x: Tensor) -> Tensor:
    qkv, size = mixer.qkv, mixer.segment_len
    q, k, v = heads(qkv, x)
    turn = mixer.rope_base, mixer.rope_fraction
    k = [part / part.square().sum(-1, keepdim=True).sqrt() for part in k]
    columns = []
    for h in range(qkv.num_heads):
        g, rows = h * qkv.num_kv_heads // qkv.num_heads, []
        for start in range(0, x.shape[1], size):
            first, stop = max(0, start - size), min(start + size, x.shape[1])
            keys = turned(k[g][:, first:stop], *turn)
            # a query stands where its own key does: turn as many tokens as there are keys, keep the last
            queries = turned(torch.cat([k[g][:, first:start], q[h][:, start:stop]], 1), *turn)
            for t in range(start - first, stop - first):
                logits = mixer.scale * (queries[:, t, None] * keys[:, : t + 1]).sum(-1)
                weights = logits.exp() / logits.exp().sum(-1, keepdim=True)
                rows.append((weights[..., None] * v[g][:, first : first + t + 1]).sum(1))
        columns.append(torch.stack(rows, dim=1))
    return project(mixer.out_proj, torch.cat(columns, dim=-1))
