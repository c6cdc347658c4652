"""Softmax attention whose keys are reflected, a little or whole, by every token that passes."""

from zoo.kernels.path_attention.chunked import path_attention
from zoo.kernels.path_attention.reference import path_attention_reference

__all__ = ["path_attention", "path_attention_reference"]
