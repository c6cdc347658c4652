"""Define the forward kernel of se_attention, and helpers that the other kernels share with it.

Places u count the keys from the start of the chunk that the call continues: query t is at place offset + t,
and key u is row before + u of k, because `before` keys are older.  Chunks of several sizes (DRAWN) come as
two tables: the chunk of each place, and where each begins, with the end of the last one after them; `offset`
is then 0.  CS is C filled up to a power of two.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import triton
import triton.language as tl

from zoo.kernels.common.tiles import dot, load_rows, store_rows

LOG2E = tl.constexpr(1.4426950408889634)  # the kernels use powers of 2, not e


@triton.jit
def chunk_at(of_place, u, end, chunk_size, DRAWN: tl.constexpr):
    """Return the chunk that a place lies in; past the end, any chunk."""
    return tl.load(of_place + u, mask=u < end, other=0) if DRAWN else u // chunk_size


@triton.jit
def begin_of(begins_at, chunk, chunk_size, DRAWN: tl.constexpr):
    """Return the first place of a chunk."""
    return tl.load(begins_at + chunk) if DRAWN else chunk * chunk_size


@triton.jit
def chosen_rows(ids, row, columns, N, S, block_size):
    """Return the rows of k that the N block_size columns of a row's chosen blocks stand for; S where none."""
    block = tl.load(ids + row * N + columns // block_size, mask=columns < N * block_size, other=-1)
    return tl.where(block >= 0, block * block_size + columns % block_size, S)


@triton.jit
def biases(bias, row, columns, N, block_size):
    """Return the biases of the same columns, to base 2."""
    addend = tl.load(bias + row * N + columns // block_size, mask=columns < N * block_size, other=0.0)
    return addend * LOG2E


@triton.jit
def add_keys(x, values, top, total, sums):
    """Add one tile to the running softmax; a masked logit is -inf and `top` is finite."""
    new = tl.maximum(top, tl.max(x, 1))
    p, fade = tl.exp2(x - new[:, None]), tl.exp2(top - new)
    return new, total * fade + tl.sum(p, 1), dot(p, values, sums * fade[:, None])


@triton.jit
def add_parts(parts, levels, t, T, N, top, total, sums, C: tl.constexpr, CS: tl.constexpr):
    """Add the N choices of a token (`far_forward`) to the running softmax, each as one tile."""
    for n in range(0, N):
        level = tl.load(levels + t * N + n, mask=t < T, other=float("-inf"))
        new = tl.maximum(top, level)
        p, fade = tl.exp2(level - new), tl.exp2(top - new)
        part = load_rows(parts + n * C, N * C, t, T, C, CS).to(tl.float32)
        top, total, sums = new, total * fade + p, sums * fade[:, None] + p[:, None] * part
    return top, total, sums


@triton.jit
def forward(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, of_place, begins_at,
    ids, bias, parts, levels, y, y_b, y_h, y_t, lse,
    H, G, sets, T, S, R, N, chunk_size, offset, block_size, scale,
    C: tl.constexpr, CS: tl.constexpr, PER_TOKEN: tl.constexpr, BIASED: tl.constexpr, DRAWN: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Attend for ROWS queries of a head."""
    head, first = tl.program_id(0).to(tl.int64), (tl.program_id(1) + offset // ROWS) * ROWS
    b, h = head // H, head % H
    g, chosen = h * G // H, (b * sets + h * sets // H) * R * N
    q, k, v, y = q + b * q_b + h * q_h, k + b * k_b + g * k_h, v + b * v_b + g * v_h, y + b * y_b + h * y_h
    ids, bias, scale = ids + chosen, bias + chosen, scale * LOG2E
    before, end = (S - T - offset).to(tl.int64), offset + T
    u = first + tl.arange(0, ROWS)
    t = tl.where(u >= offset, u - offset, T)
    chunk_of = chunk_at(of_place, u, end, chunk_size, DRAWN)
    start_of = begin_of(begins_at, chunk_of, chunk_size, DRAWN)
    lowest = chunk_at(of_place, first, end, chunk_size, DRAWN)
    queries = load_rows(q, q_t, t, T, C, CS)
    top, total = tl.full([ROWS], -1e30, tl.float32), tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, CS], tl.float32)
    if PER_TOKEN:
        parts, levels = parts + head * T * N * C, levels + head * T * N
        top, total, sums = add_parts(parts, levels, t, T, N, top, total, sums, C, CS)
    else:
        highest = chunk_at(of_place, min(first + ROWS, end) - 1, end, chunk_size, DRAWN)
        for row in range(lowest, highest + 1):
            mine = chunk_of == row
            for start in range(0, N * block_size, COLS):
                columns = start + tl.arange(0, COLS)
                j = chosen_rows(ids, row, columns, N, S, block_size)
                x = dot(queries, tl.trans(load_rows(k, k_t, j, S, C, CS))) * scale
                if BIASED:
                    x += biases(bias, row, columns, N, block_size)[None, :]
                x = tl.where(mine[:, None] & (j < S)[None, :], x, float("-inf"))
                values = load_rows(v, v_t, j, S, C, CS)
                top, total, sums = add_keys(x, values, top, total, sums)
    k, v = k + before * k_t, v + before * v_t
    for start in range(begin_of(begins_at, lowest, chunk_size, DRAWN), min(first + ROWS, end), COLS):
        j = start + tl.arange(0, COLS)
        x = dot(queries, tl.trans(load_rows(k, k_t, j, end, C, CS))) * scale
        x = tl.where((j[None, :] <= u[:, None]) & (j[None, :] >= start_of[:, None]), x, float("-inf"))
        top, total, sums = add_keys(x, load_rows(v, v_t, j, end, C, CS), top, total, sums)
    total = tl.maximum(total, 1.0)  # at least 1 for a query, maybe 0 in a row without one
    store_rows(y, y_t, t, T, sums / total[:, None], C, CS)
    tl.store(lse + head * T + t, top + tl.log2(total), mask=t < T)
