"""Define attention under a mask by all its weights.

B batch, H heads, C channels per head, T queries, S keys.
"""

import torch
from torch import Tensor


def masked_attention_reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Compute attention from all weights [B H T S]."""
    logits = (q @ k.mT) / q.shape[-1] ** 0.5
    logits = logits.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else logits + mask
    return logits.softmax(dim=-1) @ v
