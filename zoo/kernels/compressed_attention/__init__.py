"""Attention on one key and value for each block of tokens, and what it says of other blocks' importance."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.compressed_attention.reference import block_importance, causal_tokens, selected_blocks

OP = op(__name__, "reference")


def compressed_attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G N C"],
    v: Float[Tensor, "B G N C"],
    first: int,
    size: int,
    stride: int,
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H T N"]]:
    """Return the outputs of the queries at positions `first`, `first` + 1, ... and their weights, both in
    float32 at least, and both 0 for a query before the end of the first block.
    """
    return OP.run("reference", q, k, v, first, size, stride)


__all__ = ["OP", "block_importance", "causal_tokens", "compressed_attention", "selected_blocks"]
