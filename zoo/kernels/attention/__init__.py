"""Causal softmax attention over all tokens or a window, with grouped key/value heads and linear biases."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.attention.reference import attention_reference
from zoo.kernels.attention.sdpa import scaled_dot_product
from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide

OP = op(__name__, "reference", "sdpa", others=("flash_attn",))


def attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    window: int | None = None,
    slopes: Float[Tensor, "H"] | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, "B H T C"]:
    """Return causal attention, softmax(q k / sqrt C) v; query i sees keys i - window + 1 .. i (None: to i).

    Queries are the last T of S tokens.  H is a multiple of G.  `slopes` adds -slopes[h] * (i - j) to logits.
    `drop` is applied to the weights [B H T S], which are then all held in memory, in float32 at least.
    """
    if drop is not None:
        OP.note("reference")
        with torch.autocast(q.device.type, enabled=False):
            return attention_reference(wide(q), wide(k), wide(v), window, slopes, drop).to(v.dtype)
    return OP.run("sdpa", q, k, v, window, slopes)


__all__ = ["OP", "attention", "scaled_dot_product"]
