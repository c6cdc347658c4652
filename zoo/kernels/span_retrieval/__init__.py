"""Choose the past blocks that tokens attend to in SE-Attn, and make the attention mask for them.

Each step has one form, over whole sequences.  tests/definitions/se_attn.py states all of them together, one
token at a time.
"""

from zoo.kernels.span_retrieval.chunks import Chunks, drawn_chunks, fixed_chunks
from zoo.kernels.span_retrieval.summaries import attended, in_blocks

__all__ = ["Chunks", "attended", "drawn_chunks", "fixed_chunks", "in_blocks"]
