"""Attention whose weights are products of features, so that a sum of fixed size replaces the past."""

from zoo.kernels.linear_attention.reference import linear_attention_reference

__all__ = ["linear_attention_reference"]
