"""Choose blocks in Triton: scores stay in registers, a tile at a time, and are never stored.

A program takes ROWS rows and a span of the blocks, COLS at a time, and keeps for each row the best so far, in
no order.  A score and its block are one int64: the bits of the score, in the order of its value, above those
of the block counted backwards.  A larger number is better, no two are equal, and of equal scores the lowest
block wins.  A tile's largest replaces the smallest one kept until no row gains; most tiles have none to add.
`_merged` joins the spans of a row, best first; a block that two spans have seen counts once.

Stored are SLOTS of these numbers for each row and span.  The floor is 2 H C FLOPs for each row and admissible
block, and the bytes of queries and summaries.  Products are tf32x3: exact to about 2^-21 of the sum of |q c|,
like a float32 sum in another order.  Only blocks whose scores are nearer than that may change places.

B batch, H query heads, G heads of summaries, I index sets, R rows, U blocks, C channels per head.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from zoo.kernels.common.folding import Folding
from zoo.kernels.common.launching import Blocks, launch_options, strided, unfit_here
from zoo.kernels.common.tiles import dot, hopper, power_of_two, rows_last

DTYPES = (torch.float32, torch.bfloat16)  # of queries
PIECE = 32  # channels of a head at a time
LARGEST = 64  # blocks that a row may choose
PROGRAMS = 1024  # enough to fill any card: with more, tiles grow and a program walks through several
EVERY = 2**30  # stands for no limit on blocks
MERGED = 512  # about the most numbers that all spans of a row keep
LOWEST = tl.constexpr(-(2**63))  # below the number of any score
LAST = tl.constexpr(2**31 - 1)  # blocks are counted backwards from here


class Cut(NamedTuple):
    """The sizes of a launch.  blocks: the number of past blocks that one program goes through."""

    tile: Blocks
    rows: int
    spans: int
    blocks: int


def tile_of(sequences: int, rows: int, blocks: int, slots: int) -> Blocks:
    """Return tile sizes fixed by shapes and card, so that a captured graph and a second run do the same.

    `python -m tests.kernels.compiled` says what a tile costs in registers; none may spill.
    """
    tile = Blocks(128, 64 if hopper() else 32, 8, 2)
    if slots > 32 or sequences * triton.cdiv(rows, tile.rows) * triton.cdiv(blocks, tile.cols) < PROGRAMS:
        return Blocks(64, 32, 4, 3)
    return tile


def cut_of(sequences: int, rows: int, blocks: int, slots: int) -> Cut:
    tile = tile_of(sequences, rows, blocks, slots)
    tiles, passes = triton.cdiv(rows, tile.rows), triton.cdiv(blocks, tile.cols)
    each = max(sequences * tiles * passes // PROGRAMS, triton.cdiv(passes * slots, MERGED), 1)
    return Cut(tile, tiles, triton.cdiv(passes, each), each * tile.cols)


def block_choice_triton(
    queries: Tensor,
    summaries: Tensor,
    starts: Tensor,
    index_sets: int,
    block_size: int,
    first_block: int,
    top_k: int,
    max_blocks: int | None,
) -> Tensor:
    """Choose blocks without storing their scores."""
    count = min(top_k, summaries.shape[2])
    if not count:
        return starts.new_empty(queries.shape[0], index_sets, len(starts), 0, dtype=torch.int64)
    within = EVERY if max_blocks is None else min(max_blocks, EVERY)
    inputs = rows_last(queries), rows_last(summaries), starts.contiguous()
    return _Choice.apply(*inputs, index_sets, count, block_size, first_block, within)[0]


def unfit(
    queries: Tensor,
    summaries: Tensor,
    starts: Tensor,
    index_sets: int,
    block_size: int,
    first_block: int,
    top_k: int,
    max_blocks: int | None,
) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if queries.dtype not in DTYPES or summaries.dtype != torch.float32:
        dtypes = f"{queries.dtype} and {summaries.dtype}"
        return f"queries must be float32 or bfloat16 and summaries float32, and are {dtypes}"
    if min(top_k, summaries.shape[2]) > LARGEST:
        return f"top_k (={top_k}) must be at most {LARGEST}"
    return unfit_here(queries)


class _Choice(Folding):
    unbatched = (2,)  # all members have the same chunks

    @staticmethod
    def forward(  # pyright: ignore
        queries: Tensor, summaries: Tensor, starts: Tensor, sets: int, top_k: int, *numbers: int
    ) -> tuple[Tensor]:
        """Keep the best of every span of blocks, then merge the spans."""
        (batch, heads, rows, width), (groups, blocks) = queries.shape, summaries.shape[1:3]
        slots, piece = triton.next_power_of_2(top_k), min(PIECE, power_of_two(width))
        cut = cut_of(batch * sets, rows, blocks, slots)
        stored = starts.new_empty(batch * sets * rows, cut.spans * slots, dtype=torch.int64)
        _best[batch * sets, cut.rows, cut.spans](
            *(*strided(queries, summaries), starts, stored),
            *(heads, groups, sets, rows, blocks, width, triton.cdiv(width, piece), cut.blocks, *numbers),
            **{"PIECE": piece, "SLOTS": slots, "ROWS": cut.tile.rows, "COLS": cut.tile.cols},
            **launch_options(cut.tile.num_warps, cut.tile.num_stages),
        )
        ids = starts.new_empty(batch, sets, rows, top_k, dtype=torch.int64)
        wide = triton.next_power_of_2(stored.shape[1])
        at_once = max(1, 2048 // wide)
        _merged[(triton.cdiv(stored.shape[0], at_once),)](
            *(stored, ids, *stored.shape, top_k), **{"WIDE": wide, "ROWS": at_once}, **launch_options(4, 1)
        )
        return (ids,)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        del inputs
        ctx.mark_non_differentiable(*output)


# the kernels -----------------------------------------------------------------------------------------------


@triton.jit
def _best(
    q, q_b, q_h, q_r, c, c_b, c_h, c_u, starts, stored,
    H, G, sets, R, U, C, pieces, span, block_size, first_block, within,
    PIECE: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Store the SLOTS best of a span of blocks for each of ROWS rows."""
    one, part, shared = tl.program_id(0).to(tl.int64), tl.program_id(2), H // sets
    q, c = q + one // sets * q_b, c + one // sets * c_b
    row = (tl.num_programs(1) - 1 - tl.program_id(1)) * ROWS + tl.arange(0, ROWS)  # the longest pasts first
    past = tl.load(starts + row, mask=row < R, other=0) // block_size - first_block
    high = tl.minimum(past, U)
    low = tl.where(row < R, tl.maximum(past - within, 0), U)
    slot = tl.arange(0, SLOTS)
    best = tl.zeros([ROWS, SLOTS], tl.int64) + (slot.to(tl.int64) + LOWEST)[None, :]
    begin = tl.maximum(part * span, tl.min(low, 0)).to(tl.int32)
    end = tl.minimum((part + 1) * span, tl.max(high, 0)).to(tl.int32)
    for start in range(begin, end, COLS):
        u = start + tl.arange(0, COLS)
        scores = tl.zeros([ROWS, COLS], tl.float32)
        for at in range(0, shared * pieces):
            h = one % sets * shared + at // pieces
            channel = at % pieces * PIECE + tl.arange(0, PIECE)
            q_at = q + h * q_h + row.to(tl.int64)[:, None] * q_r + channel[None, :]
            c_at = c + h * G // H * c_h + u.to(tl.int64)[:, None] * c_u + channel[None, :]
            queries = tl.load(q_at, mask=(row < R)[:, None] & (channel < C)[None, :], other=0.0)
            summaries = tl.load(c_at, mask=(u < U)[:, None] & (channel < C)[None, :], other=0.0)
            scores = dot(queries, tl.trans(summaries), scores)
        counts = (u[None, :] < high[:, None]) & (u[None, :] >= low[:, None])
        best = _with(best, _ranks(scores, u, counts))
    at = ((one * R + row)[:, None] * tl.num_programs(2) + part) * SLOTS + slot[None, :]
    tl.store(stored + at, best, mask=(row < R)[:, None])


@triton.jit
def _ranks(scores, u, counts):
    """Return score and block as one number.  NaN ranks highest, as in argmax; -inf is never chosen."""
    scores = tl.where(scores != scores, float("inf"), tl.where(scores == 0, 0.0, scores))  # -0.0 ranks as 0.0
    bits = scores.to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & LAST)
    rank = (order.to(tl.int64) << 32) | (-u.to(tl.int64) + LAST)[None, :]
    return tl.where(counts & (scores != float("-inf")), rank, LOWEST)


@triton.jit
def _with(best, ranks):
    """Return the SLOTS largest of `best` and `ranks` together; all numbers above LOWEST differ."""
    worst, top = tl.min(best, 1), tl.max(ranks, 1)
    while tl.max((top > worst).to(tl.int32), 0) > 0:
        replaced = (best == worst[:, None]) & (top > worst)[:, None]
        best = tl.where(replaced, top[:, None], best)
        ranks = tl.where(ranks == top[:, None], LOWEST, ranks)
        worst, top = tl.min(best, 1), tl.max(ranks, 1)
    return best


@triton.jit
def _merged(stored, ids, rows, columns, N, WIDE: tl.constexpr, ROWS: tl.constexpr):
    """Write the ids of each row's N best blocks, best first, from those that all spans kept; ROWS rows."""
    row, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDE)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    ranks = tl.load(stored + row[:, None] * columns + column[None, :], mask=inside, other=LOWEST)
    for n in range(0, N):
        top = tl.max(ranks, 1)
        block = -(top & 0xFFFFFFFF) + LAST
        tl.store(ids + row * N + n, tl.where((top >> 32) == -(2**31), -1, block), mask=row < rows)
        ranks = tl.where(ranks == top[:, None], LOWEST, ranks)
