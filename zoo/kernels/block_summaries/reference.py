"""Define block summaries by attention inside each block and its mean."""

import torch
from torch import Tensor

from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval import attended, in_blocks


def block_summaries_reference(q: Tensor, k: Tensor, v: Tensor, block_size: int) -> Tensor:
    """Attend inside every block, in float32 at least, and average over its queries."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    asking, keys, values = (in_blocks(part.to(dtype), block_size) for part in (q, k, v))
    return attended(asking, per_query_head(keys, q.shape[1]), per_query_head(values, q.shape[1]))
