"""Scores of the blocks of the past (Expansion Span paper, arXiv 2412.13328, section 3).

B batch, H heads, I index sets, T new tokens, C channels per head, R rows that score (one a token or one a
chunk), U blocks.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.common.counter_rng import bits, stream, uniform
from zoo.kernels.span_retrieval.chunks import Chunks

HIDDEN = -1e30  # finite: a row without a block to choose from has no NaN, nor has its gradient
HELD = 2**22  # scores of a sequence and an index set at once: those of all rows could fill the memory


def scoring_queries(
    selection: str, q: Float[Tensor, "B H T C"], carried: Float[Tensor, "B H C"] | None, chunks: Chunks
) -> tuple[Float[Tensor, "B H R C"], Float[Tensor, "B H C"] | None]:
    """Return the queries that score blocks, a row a token (token, prefix) or a chunk; and the sum to carry.

    carried: sum of the queries of the chunk that the call continues (for prev, at the start of a chunk: of
    the chunk before).  chunk sums the part of a chunk that is in the call.  Sums are in float32 at least.
    """
    if selection == "token":
        return q, None
    if selection == "first":
        return q.index_select(2, chunks.first_token), None
    dtype = torch.promote_types(q.dtype, torch.float32)
    carried = torch.zeros_like(q[:, :, 0], dtype=dtype) if carried is None else carried
    resumed = (chunks.starts < chunks.first)[:, None]
    if selection == "prefix":
        rows = _running_sums(q, chunks) + carried[:, :, None] * resumed[chunks.of_token]
        return rows, rows[:, :, -1]
    sums = _chunk_sums(q, chunks)
    if selection == "chunk":
        return sums, None
    sums = sums + carried[:, :, None] * resumed
    return torch.cat([carried[:, :, None], sums[:, :, :-1]], dim=2), sums[:, :, -1]


def _chunk_sums(q: Float[Tensor, "B H T C"], chunks: Chunks) -> Float[Tensor, "B H R C"]:
    dtype = torch.promote_types(q.dtype, torch.float32)
    if chunks.size is not None:
        fill = -(chunks.offset + q.shape[2]) % chunks.size
        return F.pad(q, (0, 0, chunks.offset, fill)).unflatten(2, (-1, chunks.size)).sum(dim=3, dtype=dtype)
    member = chunks.of_token == torch.arange(len(chunks.starts), device=q.device)[:, None]
    return member.to(dtype) @ q.to(dtype)


def _running_sums(q: Float[Tensor, "B H T C"], chunks: Chunks) -> Float[Tensor, "B H T C"]:
    q = q.to(torch.promote_types(q.dtype, torch.float32))
    total = q.cumsum(dim=2)
    return total - (total - q).index_select(2, chunks.first_token[chunks.of_token])


def parts_of_rows(rows: int, num_blocks: int) -> list[slice]:
    """Cut rows into parts of at most HELD scores, one row at least."""
    every = max(1, HELD // max(1, num_blocks))
    return [slice(row, row + every) for row in range(0, max(1, rows), every)]


def relevance(
    queries: Float[Tensor, "B H R C"], summaries: Float[Tensor, "B H U C"], index_sets: int
) -> Float[Tensor, "B I R U"]:
    """Return q . c, summed over the heads of an index set (the paper's product of width d_model)."""
    q, c = (rearrange(a, "b (i h) r c -> b i r (h c)", i=index_sets) for a in (queries, summaries))
    return q @ c.mT


def random_scores(
    seed: int, index_sets: int, numbers: Int[Tensor, "R"], num_blocks: int
) -> Float[Tensor, "1 I R U"]:
    """Return uniform scores in [0, 1), a pure function of (seed, index set, chunk number, block).

    Their k largest are a uniform draw of k blocks.
    """
    keys = [stream(seed, index_set) for index_set in range(index_sets)]
    return torch.stack([uniform(bits(key, numbers, num_blocks)) for key in keys])[None]


def gate_bias(
    scores: Float[Tensor, "B I R U"],
    admissible: Bool[Tensor, "R U"],
    queries_summed: Int[Tensor, "R"],
    width: int,
) -> Float[Tensor, "B I R U"]:
    """Return the log softmax, over admissible blocks, of the mean query's scores over sqrt(width)."""
    logits = scores / queries_summed[:, None] * width**-0.5
    return logits.masked_fill(~admissible, HIDDEN).log_softmax(dim=-1)
