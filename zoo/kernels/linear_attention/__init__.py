"""Attention whose weights are products of features, so that a sum of fixed size replaces the past."""

from zoo.kernels.linear_attention.reference import linear_attention_reference, taylor_attention_reference
from zoo.kernels.linear_attention.taylor import taylor_attention

__all__ = ["linear_attention_reference", "taylor_attention", "taylor_attention_reference"]
