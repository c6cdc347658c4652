"""Causal attention over a token's own chunk and over past blocks, chosen by each chunk or token."""

from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.span_retrieval import Chunks

OP = op(__name__, "reference", "gathered", others=("triton",))
GATHERED_FROM = 256  # keys; with fewer, one mask over all is quicker
DENSER = 2.5  # time of a product with gathered keys, over that of a masked one
ONE = 4  # the same ratio for a call with one token
ALONE = 13  # time with keys gathered for each token alone, over that with keys gathered for a whole chunk


def se_attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    blocks: Int[Tensor, "#B I R N"] | None,
    bias: Float[Tensor, "#B I R N"] | None,
    chunks: Chunks,
    block_size: int,
) -> Float[Tensor, "B H T C"]:
    """Return softmax(q k / sqrt C) v over the keys of the token's chunk up to itself and of N past blocks.

    The T queries are the last of the S keys; where there are blocks, block j starts at key j block_size.
    blocks: the ids that each row has chosen, -1 for none; a row is a chunk (R chunks) or a token (R = T), and
    of the I index sets there is 1 for all heads, or G.  bias: added to the logits of a block's tokens.
    """
    return OP.run(_usual(q, k, blocks, chunks, block_size), q, k, v, blocks, bias, chunks, block_size)


def _usual(q: Tensor, k: Tensor, blocks: Tensor | None, chunks: Chunks, block_size: int) -> str:
    """Return the form in torch to run; chunks of several sizes need the mask, with [T S] memory and time."""
    if chunks.size is None or k.shape[2] < GATHERED_FROM:
        return "reference"
    shown = min(chunks.size, chunks.offset + q.shape[2])
    if blocks is not None:
        alone = ALONE if blocks.shape[2] == q.shape[2] > 1 else 1
        shown += alone * blocks.shape[3] * block_size
    return "gathered" if k.shape[2] >= (DENSER if q.shape[2] > 1 else ONE) * shown else "reference"
