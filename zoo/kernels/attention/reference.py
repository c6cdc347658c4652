"""Causal softmax attention, written out.

B batch, H query heads, G key/value heads (H a multiple of G), C channels per head, T queries that are the
last of S keys.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def attention_reference(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    window: int | None = None,
    slopes: Float[Tensor, "H"] | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, "B H T C"]:
    """Query i sees keys i - window + 1 .. i (all up to i where `window` is None), softmax(q k / sqrt C).

    Head h reads key/value head floor(h G / H).  `slopes` adds -slopes[h] * (i - j) to the logit of key j.
    `drop` is applied to the weights [B H T S].
    """
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    position = torch.arange(k.shape[2], device=q.device)
    age = position[-q.shape[2] :, None] - position
    logits = (q @ k.mT) / q.shape[-1] ** 0.5
    if slopes is not None:
        logits = logits - slopes.to(logits)[:, None, None] * age
    seen = age >= 0 if window is None else (age >= 0) & (age < window)
    weights = logits.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return (weights if drop is None else drop(weights)) @ v
