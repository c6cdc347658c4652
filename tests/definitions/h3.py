"""H3: two state spaces, step by step, between gates, Fu et al. 2023 (arXiv 2212.14052), Algorithm 1.

The diagonal one is S4D under the bilinear rule (arXiv 2206.11893).
"""

import torch
from torch import Tensor

from tests.definitions.s4d import scanned
from zoo.mixers.h3 import H3


def definition(mixer: H3, x: Tensor) -> Tensor:
    size, p = mixer.d_model, mixer.head_dim
    heads = size // p
    qkv = torch.einsum("btd,ed->bte", x, mixer.qkv_proj.weight) + mixer.qkv_proj.bias
    q, k, v = qkv[..., :size], qkv[..., size : 2 * size], qkv[..., 2 * size :]
    k = shifted(mixer, k)
    columns = [0] * size
    for i in range(p):  # channel i of head h is i * heads + h
        for j in range(p):
            left, right = slice(i * heads, (i + 1) * heads), slice(j * heads, (j + 1) * heads)
            kept = scanned(mixer.keep, k[..., left] * v[..., right])
            columns[j] = columns[j] + q[..., left] * kept
    y = torch.cat(columns[:p], dim=-1)
    return torch.einsum("btd,ed->bte", y, mixer.out_proj.weight) + mixer.out_proj.bias


def shifted(mixer: H3, k: Tensor) -> Tensor:
    """x <- S x + B k_t, out C x + D k_t; S moves every entry by one place."""
    s = mixer.shift
    x, ys = k.new_zeros(*k[:, 0].shape, mixer.d_state), []
    for k_t in k.unbind(1):
        x = torch.cat([torch.zeros_like(x[..., :1]), x[..., :-1]], dim=-1) + s.B * k_t[..., None]
        ys.append((s.C * x).sum(-1) + s.D * k_t)
    return torch.stack(ys, dim=1)
