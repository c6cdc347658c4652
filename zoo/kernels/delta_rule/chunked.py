"""The delta rule in chunks: what a chunk writes is linear in the state it starts from.

With g_i the sum of log_decay up to i in the chunk and D_ij = exp(g_i - g_j) for i >= j, the values that a
chunk writes when it starts from S are U - W S, where one unit triangular system gives U and W (Yang et al.
2024, arXiv 2406.06484, Section 3; with decay arXiv 2412.06464, Section 3.3):

    (I + strict_tril(diag(beta) K K^T * D)) [U W] = diag(beta) [V  exp(g) K]

All chunks are solved at once; then a loop carries S over them by S <- M S + N, one product a chunk.
Exponents are sums of log_decay over later tokens, never their negatives: no decay can overflow.

B batch, H heads, N chunks of C tokens, K channels of a key, V of a value.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.kernels.common.decay import carried, decays

CHUNK = 32  # tokens


def delta_rule_chunked(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Solve all chunks at once, then carry S over them."""
    length, each = q.shape[2], k.shape[2] // q.shape[2]
    chunk = min(max(1, CHUNK // each), length)
    pad = -length % chunk  # tokens that write nothing (beta is 0) and forget nothing
    q = F.pad(q, (0, 0, 0, pad)).unflatten(2, (-1, chunk))
    k, v = (F.pad(x, (0, 0, 0, each * pad)).unflatten(2, (-1, each * chunk)) for x in (k, v))
    write = F.pad(beta, (0, each * pad)).unflatten(2, (-1, each * chunk))[..., None]
    weights, overlaps = q @ k.mT, (write * k) @ k.mT
    q_in, k_in, k_out, retained = q, k, k, k.new_ones(1)
    read = slice(each - 1, None, each)  # the writes after which a query reads
    if log_decay is None:
        weights = weights * torch.ones_like(overlaps[0, 0, 0]).tril()[read]
    else:
        left, since_start = decays(F.pad(log_decay, (0, each * pad)).unflatten(2, (-1, each * chunk)))
        weights, overlaps = weights * left[..., read, :], overlaps * left
        q_in, k_in = q * since_start[..., read, :], k * since_start
        k_out, retained = k * left[..., -1, :, None], since_start[..., -1:, :]
    both = torch.cat([v, k_in], dim=-1) * write
    solved = torch.linalg.solve_triangular(overlaps, both, upper=False, unitriangular=True)
    U, W = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
    added, erased = (k_out.mT @ solved).split([v.shape[-1], k.shape[-1]], dim=-1)
    identity = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
    starts, last = carried(identity * retained - erased, added, state)
    y = q_in @ starts + weights @ (U - W @ starts)
    return y.flatten(2, 3)[:, :, :length], last
