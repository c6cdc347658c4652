"""Compute PaTH attention in chunks: a triangular system gives what a chunk's tokens subtract from each key.

Let y_sj = beta_s w_s k_j, with k_j before token s, which subtracts w_s y_sj from it.  Within a chunk, for the
keys j older than s, y_sj + beta_s (sum over r < s of w_s w_r y_rj) = beta_s w_s k_j, and the product of query
t with key j is q_t k_j - sum over s <= t of q_t w_s y_sj.
"""

import torch
from torch import Tensor

CHUNK = 64


def path_attention_chunked(q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Update the keys and attend to them, chunk after chunk."""
    past, ys = k.shape[2] - q.shape[2], []
    keys, new = k[:, :, :past], k[:, :, past:]
    for part in zip(*(x.split(CHUNK, dim=2) for x in (q, new, w, beta)), strict=True):
        keys = torch.cat([keys, part[1]], dim=2)
        y, keys = _chunk(part[0], keys, v[:, :, : keys.shape[2]], *part[2:])
        ys.append(y)
    return torch.cat(ys, dim=2), keys


def _chunk(q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    past = k.shape[2] - w.shape[2]
    weighted = beta[..., None] * w
    taken = torch.linalg.solve_triangular(
        (weighted @ w.mT).tril(-1), (weighted @ k.mT).tril(past - 1), upper=False, unitriangular=True
    )
    q = q.unflatten(1, (k.shape[1], -1))  # [B G H/G T C]
    logits = q @ k.mT[:, :, None] - (q @ w.mT[:, :, None]).tril() @ taken[:, :, None]
    later = torch.ones(logits.shape[-2:], dtype=torch.bool, device=q.device).triu(past + 1)
    logits = (logits / q.shape[-1] ** 0.5).masked_fill(later, float("-inf"))
    return (logits.softmax(-1) @ v[:, :, None]).flatten(1, 2), k - taken.mT @ w
