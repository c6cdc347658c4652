"""NSA's attention over one compressed key and value per block of tokens, whose weights then rank blocks."""

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
    """Attend to N blocks, each visible from its end on; return the outputs and weights, in float32 at least.
    Queries begin at position `first`.  Block i ends at i * stride + size - 1; a query that sees none gets 0.
    """
    return OP.run("reference", q, k, v, first, size, stride)


__all__ = ["OP", "block_importance", "causal_tokens", "compressed_attention", "selected_blocks"]
