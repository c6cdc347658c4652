"""Landmark attention: one softmax over a token's block and earlier landmarks, another inside each block."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference")


def grouped_attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    landmarks: Float[Tensor, "B G U C"],
    block_size: int,
    top_k: int | None = None,
) -> Float[Tensor, "B H T C"]:
    """Return attention by one softmax over the query's own block, up to the query, and the landmarks of the
    blocks before; a softmax inside each earlier block divides its landmark's weight among its tokens.

    top_k: how many landmarks, the best of each query and head, take part (ties: the first); None: all.
    """
    return OP.run("reference", q, k, v, landmarks, block_size, top_k)
