"""The best blocks of a row of scores: as masks over blocks, as ids, and as what attention may see.

B batch, I index sets, R rows that choose, T new tokens, S keys in view, U blocks.  Positions count from 0.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from zoo.kernels.span_retrieval.chunks import Chunks


def best_ids(
    scores: Float[Tensor, "*B U"], admissible: Bool[Tensor, "*#B U"], top_k: int
) -> Int[Tensor, "*B N"]:
    """Return the ids of the `top_k` best admissible blocks of each row, best first; -1 where there are fewer.

    Ties go to the lowest block: argmax returns the first of equals, which topk does not promise.
    """
    left = scores.masked_fill(~admissible, -torch.inf)
    ids = [left.new_empty((*left.shape[:-1], 0), dtype=torch.int64)]
    for _ in range(min(top_k, scores.shape[-1])):
        best = left.argmax(dim=-1, keepdim=True)
        ids.append(best.masked_fill(left.gather(-1, best) == -torch.inf, -1))
        left = left.scatter(-1, best, -torch.inf)
    return torch.cat(ids, dim=-1)


def best_blocks(
    scores: Float[Tensor, "*B U"], admissible: Bool[Tensor, "*#B U"], top_k: int
) -> Bool[Tensor, "*B U"]:
    """Return the `top_k` best admissible blocks of each row as a mask over blocks."""
    return from_ids(best_ids(scores, admissible, top_k), scores.shape[-1])


def admissible_blocks(
    starts: Int[Tensor, "R"],
    block_size: int,
    first_block: int,
    num_blocks: int,
    max_blocks: int | None = None,
) -> Bool[Tensor, "R U"]:
    """Return whether each block from first_block on ends before the row's chunk, within max_blocks of it."""
    ends = block_size * torch.arange(first_block + 1, first_block + num_blocks + 1, device=starts.device)
    admissible = ends <= starts[:, None]
    return (
        admissible if max_blocks is None else admissible & (ends > starts[:, None] - max_blocks * block_size)
    )


def from_ids(ids: Int[Tensor, "*B N"], num_blocks: int) -> Bool[Tensor, "*B U"]:
    """Return the mask over blocks that is True at the ids, of which -1 is none."""
    return spread_ids(torch.ones_like(ids, dtype=torch.bool), ids, num_blocks)


def spread_ids(
    values: Shaped[Tensor, "*B N"], ids: Int[Tensor, "*B N"], num_blocks: int
) -> Shaped[Tensor, "*B U"]:
    """Put each value at its block, and 0 at the rest."""
    nothing = values.new_zeros((*ids.shape[:-1], num_blocks + 1))
    return nothing.scatter(-1, ids.where(ids >= 0, num_blocks), values)[..., :num_blocks]


def span_mask(
    chosen: Bool[Tensor, "B I T U"] | None, chunks: Chunks, num_keys: int, block_size: int
) -> Bool[Tensor, "B I T S"] | Bool[Tensor, "T S"]:
    """Return [t, s]: key s is in t's chunk and not after t, or in a block that t has chosen.

    The keys are the last `num_keys` tokens; where blocks are chosen, from the first block on.
    """
    last = chunks.tokens[-1:]
    keys = last + torch.arange(1 - num_keys, 1, device=last.device)
    local = (keys >= chunks.starts[chunks.of_token][:, None]) & (keys <= chunks.tokens[:, None])
    if chosen is None:
        return local
    retrieved = chosen.repeat_interleave(block_size, dim=-1)
    return F.pad(retrieved, (0, num_keys - retrieved.shape[-1])) | local


def span_bias(
    bias: Float[Tensor, "B I T U"],
    chosen: Bool[Tensor, "B I T U"],
    mask: Bool[Tensor, "B I T S"],
    block_size: int,
) -> Float[Tensor, "B I T S"]:
    """Return `span_mask` as an addend to the logits, with the bias of its block on every retrieved token."""
    retrieved = bias.masked_fill(~chosen, 0.0).repeat_interleave(block_size, dim=-1)
    return F.pad(retrieved, (0, mask.shape[-1] - retrieved.shape[-1])).masked_fill(~mask, -torch.inf)
