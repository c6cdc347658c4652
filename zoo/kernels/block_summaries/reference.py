"""Attention inside blocks and its mean, written out."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval import attended, in_blocks


def block_summaries_reference(
    q: Float[Tensor, "B H T C"], k: Float[Tensor, "B G T C"], v: Float[Tensor, "B G T C"], block_size: int
) -> Float[Tensor, "B H U C"]:
    """What `block_summaries` says."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    asking, keys, values = (in_blocks(part.to(dtype), block_size) for part in (q, k, v))
    return attended(asking, per_query_head(keys, q.shape[1]), per_query_head(values, q.shape[1]))
