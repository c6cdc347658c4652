"""Softmax attention whose logits sink, with each token that passes, by the log of the gate it sets."""

from zoo.kernels.forgetting_attention.chunked import forgetting_attention
from zoo.kernels.forgetting_attention.reference import forgetting_attention_reference

__all__ = ["forgetting_attention", "forgetting_attention_reference"]
