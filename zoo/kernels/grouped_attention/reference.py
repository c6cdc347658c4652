"""Define the grouped softmax of landmark attention (Mohtashami and Jaggi 2023, arXiv 2305.16300, section 3).

B batch, H query heads, G key/value heads, C channels per head, T queries that are the last of S keys, U
complete blocks.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval.selection import best_blocks


def grouped_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, landmarks: Tensor, block_size: int, top_k: int | None = None
) -> Tensor:
    """Compute both levels of the softmax from all weights."""
    k, v, landmarks = (per_query_head(part, q.shape[1]) for part in (k, v, landmarks))
    t = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)[:, None]
    current, place = t // block_size, torch.arange(block_size, device=q.device)
    blocks = torch.arange(-(-k.shape[2] // block_size), device=q.device)
    k, v = _block_last(k, block_size), _block_last(v, block_size)
    landmarks = F.pad(landmarks, (0, 0, 0, len(blocks) - landmarks.shape[2]))
    q = q * q.shape[-1] ** -0.5
    tokens, gates = (q @ k.mT).unflatten(-1, (block_size, -1)), q @ landmarks.mT
    before = (blocks < current).expand(gates.shape)
    if top_k is not None:
        before = best_blocks(gates.detach(), before, top_k)
    local = tokens.gather(-1, current[..., None].expand(*tokens.shape[:-1], 1)).squeeze(-1)
    local = local.masked_fill(current * block_size + place > t, -torch.inf)
    group = torch.cat([local, gates.masked_fill(~before, -torch.inf)], dim=-1).softmax(dim=-1)
    local, opened = group.split([block_size, len(blocks)], dim=-1)
    weights = tokens.softmax(dim=-2) * opened[..., None, :]
    weights = torch.where((blocks == current)[:, None], local[..., None], weights)
    return weights.flatten(-2) @ v


def _block_last(x: Float[Tensor, "B H S C"], block_size: int) -> Float[Tensor, "B H P*U C"]:
    """Return the tokens, filled up to whole blocks, ordered by their place P in the block and then by block
    U: the softmax inside a block then runs over a dimension that is not the last, which is faster by far.
    """
    fill = -x.shape[2] % block_size
    return F.pad(x, (0, 0, 0, fill)).unflatten(2, (-1, block_size)).transpose(2, 3).flatten(2, 3)
