"""Causal softmax attention, whole or in a sliding window, with shared key/value heads and linear biases."""

from zoo.kernels.attention.reference import attention_reference
from zoo.kernels.attention.sdpa import attention, scaled_dot_product

__all__ = ["attention", "attention_reference", "scaled_dot_product"]
