"""Attention under a softmax in two levels: among a token's block and the landmarks, and inside a block."""

from zoo.kernels.grouped_attention.reference import grouped_attention

__all__ = ["grouped_attention"]
