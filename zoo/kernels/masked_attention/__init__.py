"""Softmax attention under any mask, which is boolean or added to the logits."""

from jaxtyping import Bool, Float
from torch import Tensor

from zoo.kernels.attention import scaled_dot_product
from zoo.kernels.choice import Op
from zoo.kernels.masked_attention.reference import masked_attention_reference

OP = Op("masked_attention", {"reference": masked_attention_reference, "sdpa": scaled_dot_product})


def masked_attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B H S C"],
    v: Float[Tensor, "B H S C"],
    mask: Bool[Tensor, "*#B T S"] | Float[Tensor, "*#B T S"],
) -> Float[Tensor, "B H T C"]:
    """Return softmax(q k / sqrt C) v over the keys where the mask is True, or with a mask of numbers added.

    Every query must see a key.
    """
    return OP.run("sdpa", q, k, v, mask)


__all__ = ["OP", "masked_attention", "masked_attention_reference"]
