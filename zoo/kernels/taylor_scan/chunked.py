"""Taylor linear attention in chunks: a token reads its chunk by weights, and the past by sums of features.
No feature of the past is ever formed twice.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.taylor_attention import taylor_weights
from zoo.kernels.taylor_scan.features import num_features, pair_index, taylor_features

CHUNK = 128


def taylor_scan_chunked(
    q: Tensor, k: Tensor, v: Tensor, eps: float, kv: Tensor | None = None, z: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Read a chunk through its weights, and the past through the sums of features."""
    pairs, ys = pair_index(k.shape[-1], k.device), []
    S, z_n = (kv, z) if kv is not None and z is not None else start(k, v)
    for q_n, k_n, v_n in zip(*(x.split(CHUNK, -2) for x in (q, k, v)), strict=True):
        weights, phi_q, phi_k = (
            taylor_weights(q_n, k_n),
            taylor_features(q_n, pairs),
            taylor_features(k_n, pairs),
        )
        total = weights.sum(-1, keepdim=True) + phi_q @ z_n[..., None] + eps
        ys.append((weights @ v_n + phi_q @ S) / total)
        S, z_n = S + phi_k.mT @ v_n, z_n + phi_k.sum(-2)
    return torch.cat(ys, dim=-2), S, z_n


def start(
    k: Float[Tensor, "B H T C"], v: Float[Tensor, "B H T V"]
) -> tuple[Float[Tensor, "B H F V"], Float[Tensor, "B H F"]]:
    """Return the sums before the first token."""
    z = k.new_zeros(*k.shape[:-2], num_features(k.shape[-1]))
    return z[..., None].expand(*z.shape, v.shape[-1]), z
