"""PaTH attention: the matrices between key and query multiplied out, Yang et al. 2025 (arXiv 2505.16381).

Products of I - beta w w^T are carried from the query backwards, key by key.
"""

import math

import torch
from torch import Tensor

from tests.definitions.attention import heads, project
from tests.definitions.deltanet import causal, silu
from zoo.mixers.path_attention import PathAttention

PACKAGE = "fla-core: fla.ops.path_attn.naive.naive_path_attn"
PACKAGE_TOLERANCE = 1e-4  # it works in float32


def definition(mixer: PathAttention, x: Tensor) -> Tensor:
    q, k, v = heads(mixer.qkv, x)
    ws, betas = reflections(mixer, x)
    shared, columns = mixer.qkv.num_heads // mixer.qkv.num_kv_heads, []
    for h in range(mixer.qkv.num_heads):
        g = h // shared
        vector, logits = q[h], []  # of all queries at once, each moved back to one key after another
        for s in reversed(range(x.shape[1])):
            later = vector[:, s:]
            unseen = torch.full_like(vector[:, :s, 0], -math.inf)
            logits.append(torch.cat([unseen, (later * k[g][:, s, None]).sum(-1)], 1))
            w, beta = ws[g][:, s, None], betas[:, s, g, None, None]
            moved = later - beta * (later * w).sum(-1, keepdim=True) * w
            vector = torch.cat([vector[:, :s], moved], dim=1)
        weights = (torch.stack(logits[::-1], dim=2) / math.sqrt(mixer.qkv.head_dim)).softmax(-1)
        columns.append(weights @ v[g])
    return project(mixer.out_proj, torch.cat(columns, dim=-1))


def reflections(mixer: PathAttention, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """w of each key head [B T C], of unit length, and beta [B T G]."""
    w = silu(causal(mixer.conv.weight, project(mixer.w_proj, x)))
    ws = [part / part.square().sum(-1, keepdim=True).sqrt() for part in w.split(mixer.qkv.head_dim, dim=-1)]
    return ws, 2 / (1 + torch.exp(-project(mixer.beta_proj, x)))


def package(mixer: PathAttention, x: Tensor) -> Tensor:
    from fla.ops.path_attn.naive import naive_path_attn

    (q, k, v), (ws, betas) = heads(mixer.qkv, x), reflections(mixer, x)
    q, k, v, w = (torch.stack(part, dim=2) for part in (q, k, v, ws))
    gates = torch.zeros_like(q[..., 0])
    y = naive_path_attn(q, k, v, w, betas, gates, scale=mixer.qkv.head_dim**-0.5)
    return project(mixer.out_proj, y.flatten(2))
