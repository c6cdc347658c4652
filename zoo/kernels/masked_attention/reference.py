"""Attention under a mask, written out.

B batch, H heads, C channels per head, T queries, S keys.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_attention_reference(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B H S C"],
    v: Float[Tensor, "B H S C"],
    mask: Bool[Tensor, "*#B T S"] | Float[Tensor, "*#B T S"],
) -> Float[Tensor, "B H T C"]:
    """softmax(q k / sqrt C) v over the keys where the mask is True, or with a mask of numbers added."""
    logits = (q @ k.mT) / q.shape[-1] ** 0.5
    logits = logits.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else logits + mask
    return logits.softmax(dim=-1) @ v
