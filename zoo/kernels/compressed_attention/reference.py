"""Define the compressed attention of NSA (Yuan et al. 2025, arXiv 2502.11089, Eqs. 8 to 11).

Compressed block i stands for the tokens i * stride .. i * stride + size - 1; queries from the last of these
tokens on see it.  B batch, H query heads, G key/value heads, C channels per head, T queries, N compressed
blocks, U blocks that can be selected.  Positions are absolute, from 0.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval.selection import best_blocks

HIDDEN = -1e30  # finite, so that a query that sees no block yet has no NaN, nor has its gradient


def compressed_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, first: int, size: int, stride: int
) -> tuple[Tensor, Tensor]:
    """Compute attention from the weights of every compressed block."""
    q, k, v = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in (q, k, v))
    k, v = per_query_head(k, q.shape[1]), per_query_head(v, q.shape[1])
    position = torch.arange(first, first + q.shape[2], device=q.device)
    last = torch.arange(k.shape[2], device=q.device) * stride + size - 1
    visible = last <= position[:, None]
    logits = (q @ k.mT) * q.shape[-1] ** -0.5
    weights = logits.masked_fill(~visible, HIDDEN).softmax(dim=-1) * visible
    return weights @ v, weights


def block_importance(
    weights: Float[Tensor, "B G T N"], size: int, stride: int, block_size: int, num_tokens: int
) -> Float[Tensor, "B G T U"]:
    """Return the importance of each of the blocks that have begun after `num_tokens` tokens: the weights of
    the compressed blocks, summed over a group's heads (Eq. 10), each times its overlap in strides (Eq. 9).
    """
    start = torch.arange(weights.shape[-1], device=weights.device)[:, None] * stride
    block = torch.arange(0, num_tokens, block_size, device=weights.device)
    end = torch.minimum(start + size, block + block_size)
    overlap = (end - torch.maximum(start, block)).clamp(min=0) // stride
    return weights @ overlap.to(weights.dtype)


def selected_blocks(
    importance: Float[Tensor, "B G T U"], first: int, block_size: int, top_k: int, initial: int, local: int
) -> Bool[Tensor, "B G T U"]:
    """Choose `top_k` of the blocks that have begun: `initial` first, `local` last, the rest by importance."""
    length, num_blocks = importance.shape[2:]
    current = torch.arange(first, first + length, device=importance.device)[:, None] // block_size
    block = torch.arange(num_blocks, device=importance.device)
    fixed = (block < initial) | (block > current - local)
    return best_blocks(importance.masked_fill(fixed, torch.inf), block <= current, top_k)


def causal_tokens(chosen: Bool[Tensor, "B G T U"], first: int, block_size: int) -> Bool[Tensor, "B G T S"]:
    """Return a mask of the tokens of the chosen blocks that are not later than the query."""
    t = torch.arange(first, first + chosen.shape[2], device=chosen.device)
    tokens = chosen.repeat_interleave(block_size, dim=3)[..., : first + len(t)]
    return tokens & (torch.arange(first + len(t), device=t.device) <= t[:, None])
