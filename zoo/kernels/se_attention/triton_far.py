"""Attend to the blocks that each token has chosen for itself, in the order of the blocks, not of the tokens.

No two tokens share their keys, but many have chosen the same block: a program takes ROWS choices that lie
together in the inverted list, and multiplies their queries with the blocks that they name, tile by tile.
A choice yields a part of its token's sum, [B H T N C], and the log (to base 2) of the sum of its weights.

Token by token instead, each token would read its N block_size keys alone and multiply without tensor cores.
With 65,536 tokens, 16 heads of 64 channels and 8 blocks of 32 that is 69 GB through the cache and 0.3
TFLOP: 12 ms on an H200 at best.  A choice's query and its part, written and read, are 0.4 kB: 3 GB, 0.8 ms.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import triton
import triton.language as tl

from zoo.kernels.common.tiles import dot, load_rows, store_rows
from zoo.kernels.se_attention.triton_forward import LOG2E, add_keys

NO_TILE = tl.constexpr(2**30)


@triton.jit
def tile_from(block, first, block_size, COLS: tl.constexpr):
    """Return the first tile of keys, from `first` on, that one of these blocks lies in, or NO_TILE."""
    low, high = block * block_size // COLS, (block * block_size + block_size - 1) // COLS
    return tl.min(tl.where((block >= 0) & (high >= first), tl.maximum(low, first), NO_TILE), 0)


@triton.jit
def far_forward(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, blocks, entries, bias, parts, levels,
    H, G, sets, T, S, E, N, block_size, scale,
    C: tl.constexpr, CS: tl.constexpr, BIASED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Attend from each of ROWS choices, of a head's E = T N, to its block alone."""
    head, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    b, h = head // H, head % H
    g, one_set = h * G // H, b * sets + h * sets // H
    q, k, v = q + b * q_b + h * q_h, k + b * k_b + g * k_h, v + b * v_b + g * v_h
    block = tl.load(blocks + one_set * E + at, mask=at < E, other=-1)
    entry = tl.load(entries + one_set * E + at, mask=at < E, other=E)
    queries = load_rows(q, q_t, tl.where(block >= 0, entry // N, T), T, C, CS)
    factor, addend = scale * LOG2E, tl.zeros([ROWS], tl.float32)
    if BIASED:
        addend += tl.load(bias + one_set * E + entry, mask=at < E, other=0.0) * LOG2E
    top, total = tl.full([ROWS], -1e30, tl.float32), tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, CS], tl.float32)
    tile = tile_from(block, 0, block_size, COLS)
    while tile < NO_TILE:
        j = tile * COLS + tl.arange(0, COLS)
        x = dot(queries, tl.trans(load_rows(k, k_t, j, S, C, CS))) * factor + addend[:, None]
        x = tl.where(block[:, None] == (j // block_size)[None, :], x, float("-inf"))
        top, total, sums = add_keys(x, load_rows(v, v_t, j, S, C, CS), top, total, sums)
        tile = tile_from(block, tile + 1, block_size, COLS)
    total = tl.maximum(total, 1.0)  # at least 1; 0 only without a block, whose level is then -1e30
    store_rows(parts + head * E * C, C, entry, E, sums / total[:, None], C, CS)
    tl.store(levels + head * E + entry, top + tl.log2(total), mask=entry < E)


@triton.jit
def far_backward(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t, blocks, entries, bias,
    y, y_b, y_h, y_t, lse, parts, shares,
    H, G, sets, T, S, E, N, block_size, scale,
    C: tl.constexpr, CS: tl.constexpr, BIASED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Compute the share of each of ROWS choices in dq of its token (before the scale) and of its bias."""
    head, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    b, h = head // H, head % H
    g, one_set = h * G // H, b * sets + h * sets // H
    q, k, v, y = q + b * q_b + h * q_h, k + b * k_b + g * k_h, v + b * v_b + g * v_h, y + b * y_b + h * y_h
    block = tl.load(blocks + one_set * E + at, mask=at < E, other=-1)
    entry = tl.load(entries + one_set * E + at, mask=at < E, other=E)
    t = tl.where(block >= 0, entry // N, T)
    answers, dy = load_rows(y, y_t, t, T, C, CS).to(tl.float32), dy + b * dy_b + h * dy_h
    through = tl.sum(load_rows(dy, dy_t, t, T, C, CS).to(tl.float32) * answers, 1)
    level = tl.load(lse + head * T + t, mask=t < T, other=0.0)
    factor, addend = scale * LOG2E, tl.zeros([ROWS], tl.float32)
    if BIASED:
        addend += tl.load(bias + one_set * E + entry, mask=at < E, other=0.0) * LOG2E
    sums, share = tl.zeros([ROWS, CS], tl.float32), tl.zeros([ROWS], tl.float32)
    tile = tile_from(block, 0, block_size, COLS)
    while tile < NO_TILE:
        j = tile * COLS + tl.arange(0, COLS)
        keys, again = load_rows(k, k_t, j, S, C, CS), tl.where(tile >= 0, t, T)  # kept q, dy would spill
        x = dot(load_rows(q, q_t, again, T, C, CS), tl.trans(keys)) * factor + addend[:, None]
        x = tl.where(block[:, None] == (j // block_size)[None, :], x, float("-inf"))
        upstream = load_rows(dy, dy_t, again, T, C, CS)
        dp = dot(upstream, tl.trans(load_rows(v, v_t, j, S, C, CS)))
        ds = tl.exp2(x - level[:, None]) * (dp - through[:, None])
        sums, share = dot(ds, keys, sums), share + tl.sum(ds, 1)
        tile = tile_from(block, tile + 1, block_size, COLS)
    store_rows(parts + head * E * C, C, entry, E, sums, C, CS)
    if BIASED:
        tl.store(shares + head * E + entry, share, mask=entry < E)
