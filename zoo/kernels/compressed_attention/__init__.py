"""Attention on one key and value for each block of tokens, and what it says of other blocks' importance."""

from zoo.kernels.compressed_attention.reference import (
    block_importance,
    causal_tokens,
    compressed_attention,
    selected_blocks,
)

__all__ = ["block_importance", "causal_tokens", "compressed_attention", "selected_blocks"]
