"""Define attention to a chunk and chosen blocks by one mask over all keys: O(T S) memory and time."""

from torch import Tensor

from zoo.kernels.attention import scaled_dot_product
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval.chunks import Chunks
from zoo.kernels.span_retrieval.selection import from_ids, span_bias, span_mask, spread_ids


def se_attention_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Tensor | None,
    bias: Tensor | None,
    chunks: Chunks,
    block_size: int,
) -> Tensor:
    """Attend to all keys under one mask."""
    (heads, length), num_keys = q.shape[1:3], k.shape[2]
    chosen = addend = None
    if blocks is not None:
        chosen = _of_tokens(from_ids(blocks, num_keys // block_size), chunks, length)
    mask = span_mask(chosen, chunks, num_keys, block_size)
    if blocks is not None and chosen is not None and bias is not None:
        addend = _of_tokens(spread_ids(bias, blocks, num_keys // block_size), chunks, length)
        mask = span_bias(addend, chosen, mask, block_size).to(q.dtype)
    mask = per_query_head(mask, heads) if chosen is not None and chosen.shape[1] > 1 else mask
    return scaled_dot_product(q, per_query_head(k, heads), per_query_head(v, heads), mask)


def _of_tokens(rows: Tensor, chunks: Chunks, length: int) -> Tensor:
    """Turn [B I R U] into [B I T U]."""
    return rows if rows.shape[2] == length else rows.index_select(2, chunks.of_token)
