"""Causal softmax attention, whole or in a sliding window, with shared key/value heads and linear biases."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.attention.reference import attention_reference
from zoo.kernels.attention.sdpa import attention_sdpa, scaled_dot_product
from zoo.kernels.choice import Op

OP = Op("attention", {"reference": attention_reference, "sdpa": attention_sdpa}, others=("flash_attn",))


def attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    window: int | None = None,
    slopes: Float[Tensor, "H"] | None = None,
) -> Float[Tensor, "B H T C"]:
    """softmax(q k / sqrt C) v.  Query i of the last T sees keys i - window + 1 .. i (None: all up to i).

    H is a multiple of G.  `slopes` adds -slopes[h] * (i - j) to the logit of key j.
    """
    return OP.run("sdpa", q, k, v, window, slopes)


__all__ = ["OP", "attention", "attention_reference", "attention_sdpa", "scaled_dot_product"]
