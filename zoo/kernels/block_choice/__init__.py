"""The past blocks whose summaries a row's query agrees with best: scores and their top k, no gradients."""

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
    """Return the ids of a row's N = min(top_k, U) best blocks, best first; -1 where there are fewer.

    The score of a block is q . c, summed over the heads of the index set, in float32 at least; ties go to the
    lowest block.  Ids 0, 1, ... are the blocks first_block, first_block + 1, ...  A row chooses among those
    that end at or before `starts`, where its chunk begins, and of those the last `max_blocks` (None: all).
    (Expansion Span, arXiv 2412.13328, section 3, for one chunk of queries; head h reads summary h G / H.)
    """
    return OP.run(
        "reference", queries, summaries, starts, index_sets, block_size, first_block, top_k, max_blocks
    )
