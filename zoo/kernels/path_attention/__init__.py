"""Softmax attention whose keys are reflected, a little or whole, by every token that passes."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import Op
from zoo.kernels.path_attention.chunked import path_attention_chunked
from zoo.kernels.path_attention.reference import path_attention_reference

OP = Op("path_attention", {"reference": path_attention_reference, "chunked": path_attention_chunked})


def path_attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    w: Float[Tensor, "B G T C"],
    beta: Float[Tensor, "B G T"],
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B G S C"]]:
    """What `path_attention_reference` says; returns y and the keys as the last token leaves them."""
    return OP.run("chunked", q, k, v, w, beta)


__all__ = ["OP", "path_attention", "path_attention_chunked", "path_attention_reference"]
