"""Which past blocks a token retrieves, and the mask that shows them to attention."""

from zoo.kernels.span_retrieval.chunks import Chunks, drawn_chunks, fixed_chunks
from zoo.kernels.span_retrieval.reference import (
    random_scores,
    relevance,
    scoring_queries,
    span_mask,
    summarise,
)
from zoo.kernels.span_retrieval.selection import best_blocks, block_ids, chosen_blocks, from_ids

__all__ = [
    "Chunks",
    "best_blocks",
    "block_ids",
    "chosen_blocks",
    "drawn_chunks",
    "fixed_chunks",
    "from_ids",
    "random_scores",
    "relevance",
    "scoring_queries",
    "span_mask",
    "summarise",
]
