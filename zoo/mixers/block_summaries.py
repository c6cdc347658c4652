"""SE-Attn scores blocks of the past by their summaries (Expansion Span, arXiv 2412.13328, section 3).

B batch, T new tokens, S tokens from the first of the incomplete block on, H query heads, G key/value heads,
C channels per head, U new complete blocks, W tokens of the incomplete block.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.kernels.block_summaries import block_summaries
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval import attended, in_blocks
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.span_rule import SpanRule


class BlockSummaries(nn.Module):
    """Summarise each complete block by one vector per head.

    attn_value: attention inside the block, averaged over its queries (the paper); attn_key: the same with the
    keys as values; mean_key: the mean of the keys; landmark: attention of one query, projected from a frozen
    random vector of norm 1 (SE-Attn-LM; the paper says no more of it).

    size: scalars of a block's summary; query_size: scalars of a query that waits for the end of its block.
    """

    landmark: Float[Tensor, "D"] | None

    def __init__(self, qkv: QueryKeyValue, rule: SpanRule) -> None:
        super().__init__()
        self.kind, self.block_size, self.num_heads = rule.summary, rule.block_size, qkv.num_heads
        d_model = qkv.proj.in_features
        by_queries = self.kind in ("attn_value", "attn_key")
        self.size = (qkv.kv_dim if self.kind == "mean_key" else d_model) if rule.scores else 0
        self.query_size = d_model if rule.scores and by_queries else 0
        drawn = rule.scores and self.kind == "landmark"
        self.register_buffer("landmark", F.normalize(torch.randn(d_model), dim=0) if drawn else None)

    def forward(
        self,
        qkv: QueryKeyValue,
        q: Float[Tensor, "B H T C"],
        k: Float[Tensor, "B G S C"],
        v: Float[Tensor, "B G S C"],
        waiting: Float[Tensor, "B H W C"] | None,
    ) -> tuple[Float[Tensor, "B _ U C"], Float[Tensor, "B H W C"] | None]:
        """Return the summaries of the newly completed blocks, and the queries of the incomplete one.

        Summaries have G heads with mean_key, else H.  Queries are None where they enter no summary.
        """
        dtype = torch.promote_types(k.dtype, torch.float32)
        if self.kind == "mean_key":
            return in_blocks(k, self.block_size).mean(dim=-2, dtype=dtype), None
        if self.landmark is not None:
            keys, values = (in_blocks(part.to(dtype), self.block_size) for part in (k, v))
            keys, values = per_query_head(keys, self.num_heads), per_query_head(values, self.num_heads)
            asking = qkv.unplaced_query(self.landmark)[None, :, None, None].to(dtype)
            return attended(asking.expand(*keys.shape[:3], -1, -1), keys, values), None
        q = q if waiting is None else torch.cat([waiting, q], dim=2)
        whole = q.shape[2] // self.block_size * self.block_size
        asking, keys, values = (part[:, :, :whole] for part in (q, k, v))
        read = keys if self.kind == "attn_key" else values
        return block_summaries(asking, keys, read, self.block_size), q[:, :, whole:]
