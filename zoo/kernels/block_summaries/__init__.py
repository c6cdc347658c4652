"""The summary that SE-Attn scores a block of the past by: attention inside it, averaged over its queries."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference", others=("triton",))


def block_summaries(
    q: Float[Tensor, "B H T C"], k: Float[Tensor, "B G T C"], v: Float[Tensor, "B G T C"], block_size: int
) -> Float[Tensor, "B H U C"]:
    """Return the mean over a block's queries of softmax(q k / sqrt C) v over its keys; not causal.

    U = floor(T / block_size): only whole blocks.  In float32 at least, as rounding would change the choice.
    (Expansion Span, arXiv 2412.13328, section 3.)
    """
    return OP.run("reference", q, k, v, block_size)
