"""Define the choice of blocks: scores and their top k, a part of the rows at a time."""

import torch
from torch import Tensor

from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval.scores import parts_of_rows, relevance
from zoo.kernels.span_retrieval.selection import admissible_blocks, best_ids


def block_choice_reference(
    queries: Tensor,
    summaries: Tensor,
    starts: Tensor,
    index_sets: int,
    block_size: int,
    first_block: int,
    top_k: int,
    max_blocks: int | None,
) -> Tensor:
    """Score a part of the rows at a time, in float32 at least, and return their best blocks."""
    num_blocks, by_head = summaries.shape[2], per_query_head(summaries, queries.shape[1])
    dtype = torch.promote_types(queries.dtype, torch.float32)
    ids = []
    for rows in parts_of_rows(len(starts), num_blocks):
        scores = relevance(queries[:, :, rows].to(dtype), by_head, index_sets)
        admissible = admissible_blocks(starts[rows], block_size, first_block, num_blocks, max_blocks)
        ids.append(best_ids(scores, admissible, top_k))
    return torch.cat(ids, dim=2)
