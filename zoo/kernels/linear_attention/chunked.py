"""Linear attention in chunks: a matrix of weights inside a chunk, and sums for all tokens before it."""

import torch
from torch import Tensor

from zoo.kernels.linear_attention.reference import sums_before

CHUNK = 128  # tokens


def linear_attention_chunked(
    phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float | None, kv: Tensor | None, z: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Read a chunk through its weights, and the past through the sums."""
    S, z = sums_before(phi_k, v, eps, kv, z)
    ys = []
    for q_n, k_n, v_n in zip(*(x.split(CHUNK, -2) for x in (phi_q, phi_k, v)), strict=True):
        weights = (q_n @ k_n.mT).tril()
        y = weights @ v_n + q_n @ S
        S = S + k_n.mT @ v_n
        if z is not None and eps is not None:
            y = y / (weights.sum(-1, keepdim=True) + q_n @ z[..., None] + eps)
            z = z + k_n.sum(-2)
        ys.append(y)
    return torch.cat(ys, dim=-2), S, z
