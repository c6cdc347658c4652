"""The past blocks that a token retrieves, and the mask that shows them to attention.

Each step has one form, over whole sequences.  tests/definitions/se_attn.py states all of them together, one
token at a time.
"""

from zoo.kernels.span_retrieval.chunks import Chunks, drawn_chunks, fixed_chunks
from zoo.kernels.span_retrieval.scores import (
    gate_bias,
    parts_of_rows,
    random_scores,
    relevance,
    scoring_queries,
)
from zoo.kernels.span_retrieval.selection import (
    admissible_blocks,
    best_blocks,
    best_ids,
    from_ids,
    span_bias,
    span_mask,
    spread_ids,
)
from zoo.kernels.span_retrieval.summaries import attended, in_blocks

__all__ = [
    "Chunks",
    "admissible_blocks",
    "attended",
    "best_blocks",
    "best_ids",
    "drawn_chunks",
    "fixed_chunks",
    "from_ids",
    "gate_bias",
    "in_blocks",
    "parts_of_rows",
    "random_scores",
    "relevance",
    "scoring_queries",
    "span_bias",
    "span_mask",
    "spread_ids",
]
