"""The diagonal-plus-low-rank delta rule in chunks: matrices within one, a product from one to the next.

Unrolled from the chunk's first state S, with D_ij the decay of steps j+1 to i, and u_i = a_i^T S_{i-1},

    u = A_ak v + A_ab u + (D a) S        A_ab[i,j] = a_i^T D_{i-1,j} b_j  for j < i,   A_ak with k for b
    y = A_qk v + A_qb u + (D q) S        A_qb[i,j] = q_i^T D_ij b_j       for j <= i,  A_qk with k for b

so that u is a triangular solve, and all that leaves the chunk is linear in S (for the plain delta rule: Yang
et al. 2024, arXiv 2406.06484).

D differs by channel, so no A is a single product.  The A are built from the diagonal outwards: two
neighbouring blocks of s tokens become one of 2s, and the decay between tokens of the two blocks is the
product of the decays up to the seam and from it on.  This differs from the usual chunk form on purpose: no
sums of logarithms, no differences of them and no exponents, but products of decays, none of them above 1.

B batch, H heads, T time, N chunks, C tokens of a chunk, n blocks of s tokens, K channels of a key, V of a
value.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.decay import carried

CHUNK = 16


class Blocks(NamedTuple):
    """n blocks of s tokens each; the dimensions of size 2 are (q, a) in rows and (k, b) in columns."""

    matrices: Float[Tensor, "B H N n 2 s 2 s"]
    rows: Float[Tensor, "B H N n 2 s K"]  # decayed from the block's start on
    columns: Float[Tensor, "B H N n 2 s K"]  # decayed to the block's end
    decay: Float[Tensor, "B H N n K"]  # of the whole block


def dplr_delta_rule_chunked(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute a chunk by matrices, and carry S from chunk to chunk."""
    length, width = v.shape[2:]
    chunk = min(CHUNK, 1 << (length - 1).bit_length())
    q, k, v, a, b, log_decay = (_cut(s, chunk) for s in (q, k, v, a, b, log_decay))
    matrices, rows, columns, decay = (part.squeeze(3) for part in _chunks(q, k, a, b, log_decay.exp()))
    from_q, from_a = matrices.flatten(-2).unbind(3)  # [B H N C 2C]
    from_k, from_b = from_a.split(chunk, dim=-1)
    reads = torch.cat([from_k @ v, rows[:, :, :, 1]], dim=-1)  # u without S | what S adds to u
    eye = torch.eye(chunk, dtype=v.dtype, device=v.device)
    reads = torch.linalg.solve_triangular(eye - from_b, reads, upper=False, unitriangular=True)
    writes = torch.cat([F.pad(v, (0, q.shape[-1])), reads], dim=-2)
    y, y_of_S = (from_q @ writes).split([width, q.shape[-1]], dim=-1)
    gain, transition = (columns.flatten(3, 4).mT @ writes).split([width, q.shape[-1]], dim=-1)
    first, last = carried(transition + torch.diag_embed(decay), gain, state)
    y = y + (y_of_S + rows[:, :, :, 0]) @ first
    return y.flatten(2, 3)[:, :, :length], last


def _cut(s: Float[Tensor, "B H T X"], chunk: int) -> Float[Tensor, "B H N C X"]:
    """Return whole chunks; a token of zeros (a decay of 1) changes no state."""
    return F.pad(s, (0, 0, 0, -s.shape[2] % chunk)).unflatten(2, (-1, chunk))


def _chunks(q: Tensor, k: Tensor, a: Tensor, b: Tensor, decay: Tensor) -> Blocks:
    """Return each chunk as one block; all arguments [B H N C K]."""
    keys = torch.stack([k, b], dim=-2)  # [B H N C 2 K]
    products = keys @ q[..., None]
    diagonal = torch.stack([products, torch.zeros_like(products)], dim=-3)[..., None, :, :]
    blocks = Blocks(diagonal, torch.stack([q * decay, a], -2)[..., None, :], keys[..., None, :], decay)
    while blocks.decay.shape[3] > 1:
        blocks = _merge(blocks)
    return blocks


def _merge(blocks: Blocks) -> Blocks:
    """Join each two neighbouring blocks into one."""
    (A_1, A_2), (rows_1, rows_2), (columns_1, columns_2), (decay_1, decay_2) = (
        part.unflatten(3, (-1, 2)).unbind(4) for part in blocks
    )
    below = rows_2.flatten(-3, -2) @ columns_1.flatten(-3, -2).mT
    top = torch.cat([A_1, torch.zeros_like(A_1)], dim=-1)
    bottom = torch.cat([below.view(A_2.shape), A_2], dim=-1)
    return Blocks(
        torch.cat([top, bottom], dim=-3),
        torch.cat([rows_1, rows_2 * decay_1[..., None, None, :]], dim=-2),
        torch.cat([columns_1 * decay_2[..., None, None, :], columns_2], dim=-2),
        decay_1 * decay_2,
    )
