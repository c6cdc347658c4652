"""Define causal softmax attention by the matrix of all its weights.

B batch, H query heads, G key/value heads (H a multiple of G), C channels per head, T queries that are the
last of S keys.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def attention_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: int | None = None,
    slopes: Tensor | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Compute all weights [B H T S]; query head h reads key/value head floor(h G / H)."""
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    position = torch.arange(k.shape[2], device=q.device)
    age = position[-q.shape[2] :, None] - position
    logits = (q @ k.mT) / q.shape[-1] ** 0.5
    if slopes is not None:
        logits = logits - slopes.to(logits)[:, None, None] * age
    visible = age >= 0 if window is None else (age >= 0) & (age < window)
    weights = logits.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    return (weights if drop is None else drop(weights)) @ v
