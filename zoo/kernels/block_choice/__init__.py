"""The top-k past blocks of each query by dot product with the blocks' summaries, without gradients."""

from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference", others=("triton",))


def block_choice(
    queries: Float[Tensor, "B H R C"],
    summaries: Float[Tensor, "B G U C"],
    starts: Int[Tensor, "R"],
    index_sets: int,
    block_size: int,
    first_block: int,
    top_k: int,
    max_blocks: int | None,
) -> Int[Tensor, "B I R N"]:
    """Return for each row of queries the ids of its N = min(top_k, U) best blocks, best first; -1 for none.

    A block's score is q . c, c its summary, summed over an index set's heads, in float32 at least; ties go to
    the lowest.  Ids 0, 1, ... are the blocks first_block, first_block + 1, ...  A row chooses among those
    that end at or before `starts`, where its chunk begins, and of those the last `max_blocks` (None: all).
    (Expansion Span, arXiv 2412.13328, section 3, for one chunk of queries; head h reads summary h G / H.)
    """
    return OP.run(
        "reference", queries, summaries, starts, index_sets, block_size, first_block, top_k, max_blocks
    )
