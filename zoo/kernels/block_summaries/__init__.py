"""SE-Attn's summary of a block of tokens: the mean, over its queries, of attention inside the block."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference", others=("triton",))


def block_summaries(
    q: Float[Tensor, "B H T C"], k: Float[Tensor, "B G T C"], v: Float[Tensor, "B G T C"], block_size: int
) -> Float[Tensor, "B H U C"]:
    """Return, for each block, the mean over its queries of softmax(q k / sqrt C) v over its keys; not causal.

    U = floor(T / block_size): only whole blocks.  In float32 at least: rounding would change choices.
    (Expansion Span, arXiv 2412.13328, section 3.)
    """
    return OP.run("reference", q, k, v, block_size)
