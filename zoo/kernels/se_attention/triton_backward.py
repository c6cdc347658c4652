"""The backward kernels of se_attention; names have the meaning that they have in the forward kernel."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import triton
import triton.language as tl

from zoo.kernels.common.tiles import dot, load_rows, store_rows
from zoo.kernels.se_attention.triton_forward import LOG2E, begin_of, biases, chosen_rows, chunk_at


@triton.jit
def backward_queries(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t, of_place, begins_at,
    ids, bias, y, y_b, y_h, y_t, lse, delta, dq, dq_b, dq_h, dq_t, shares, far,
    H, G, sets, T, S, R, N, chunk_size, offset, block_size, scale, parts,
    C: tl.constexpr, CS: tl.constexpr, PER_TOKEN: tl.constexpr, BIASED: tl.constexpr, DRAWN: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Compute dq of ROWS queries, what they add to the gradient of biases, and delta, for `backward_keys`."""
    head, tile = tl.program_id(0).to(tl.int64), tl.program_id(1) + offset // ROWS
    first, b, h = tile * ROWS, head // H, head % H
    g, chosen = h * G // H, (b * sets + h * sets // H) * R * N
    q, k, v, y = q + b * q_b + h * q_h, k + b * k_b + g * k_h, v + b * v_b + g * v_h, y + b * y_b + h * y_h
    dy, dq = dy + b * dy_b + h * dy_h, dq + b * dq_b + h * dq_h
    ids, bias, factor = ids + chosen, bias + chosen, scale * LOG2E
    before, end = (S - T - offset).to(tl.int64), offset + T
    u = first + tl.arange(0, ROWS)
    t = tl.where(u >= offset, u - offset, T)
    chunk_of = chunk_at(of_place, u, end, chunk_size, DRAWN)
    start_of = begin_of(begins_at, chunk_of, chunk_size, DRAWN)
    lowest = chunk_at(of_place, first, end, chunk_size, DRAWN)
    queries, upstream = load_rows(q, q_t, t, T, C, CS), load_rows(dy, dy_t, t, T, C, CS)
    through = tl.sum(upstream.to(tl.float32) * load_rows(y, y_t, t, T, C, CS).to(tl.float32), 1)
    tl.store(delta + head * T + t, through, mask=t < T)
    level = tl.load(lse + head * T + t, mask=t < T, other=0.0)
    sums = tl.zeros([ROWS, CS], tl.float32)
    if PER_TOKEN:
        for n in range(0, N):  # the parts of dq from `far_backward`
            sums += load_rows(far + (head * T * N + n) * C, N * C, t, T, C, CS).to(tl.float32)
    else:
        highest = chunk_at(of_place, min(first + ROWS, end) - 1, end, chunk_size, DRAWN)
        for row in range(lowest, highest + 1):
            mine = chunk_of == row
            part = (head * R + row) * parts + tile - begin_of(begins_at, row, chunk_size, DRAWN) // ROWS
            for start in range(0, N * block_size, COLS):
                columns = start + tl.arange(0, COLS)
                j = chosen_rows(ids, row, columns, N, S, block_size)
                keys = load_rows(k, k_t, j, S, C, CS)
                x = dot(queries, tl.trans(keys)) * factor
                if BIASED:
                    x += biases(bias, row, columns, N, block_size)[None, :]
                x = tl.where(mine[:, None] & (j < S)[None, :], x, float("-inf"))
                dp = dot(upstream, tl.trans(load_rows(v, v_t, j, S, C, CS)))
                ds = tl.exp2(x - level[:, None]) * (dp - through[:, None])
                sums = dot(ds, keys, sums)
                if BIASED:
                    at = shares + part * N * block_size + columns
                    tl.store(at, tl.sum(ds, 0), mask=columns < N * block_size)
    k, v = k + before * k_t, v + before * v_t
    for start in range(begin_of(begins_at, lowest, chunk_size, DRAWN), min(first + ROWS, end), COLS):
        j = start + tl.arange(0, COLS)
        keys = load_rows(k, k_t, j, end, C, CS)
        x = dot(queries, tl.trans(keys)) * factor
        x = tl.where((j[None, :] <= u[:, None]) & (j[None, :] >= start_of[:, None]), x, float("-inf"))
        dp = dot(upstream, tl.trans(load_rows(v, v_t, j, end, C, CS)))
        sums = dot(tl.exp2(x - level[:, None]) * (dp - through[:, None]), keys, sums)
    store_rows(dq, dq_t, t, T, sums * scale, C, CS)


@triton.jit
def load_queries(head, t, T, C: tl.constexpr, CS: tl.constexpr):
    """Load queries of a head, their upstream gradients, and lse and delta of each; zeros past T."""
    q, q_t, dy, dy_t, lse, delta = head
    queries, upstream = load_rows(q, q_t, t, T, C, CS), load_rows(dy, dy_t, t, T, C, CS)
    level = tl.load(lse + t, mask=t < T, other=0.0)
    return queries, upstream, level, tl.load(delta + t, mask=t < T, other=0.0)


@triton.jit
def add_queries(x, values, loaded, dkeys, dvalues):
    """Add some queries' parts of dk and dv.  x: logits [keys, queries], -inf where a key is not seen."""
    queries, upstream, level, through = loaded
    p = tl.exp2(x - level[None, :])
    dvalues = dot(p, upstream, dvalues)
    ds = p * (dot(values, tl.trans(upstream)) - through[None, :])
    return dot(ds, queries, dkeys), dvalues


@triton.jit
def add_tokens(
    head, blocks, entries, bias, low, high, keys, values, block_of, factor, dkeys, dvalues, T, N,
    C: tl.constexpr, CS: tl.constexpr, BIASED: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Add to dk and dv what the tokens that chose a block of these keys give, in one head."""
    for start in range(low, high, COLS):
        at = start + tl.arange(0, COLS)
        entry = tl.load(entries + at, mask=at < high, other=0)
        block = tl.load(blocks + at, mask=at < high, other=-1)
        loaded = load_queries(head, tl.where(at < high, entry // N, T), T, C, CS)
        x = dot(keys, tl.trans(loaded[0])) * factor
        if BIASED:
            x += (tl.load(bias + entry) * LOG2E)[None, :]
        x = tl.where(block_of[:, None] == block[None, :], x, float("-inf"))
        dkeys, dvalues = add_queries(x, values, loaded, dkeys, dvalues)
    return dkeys, dvalues


@triton.jit
def backward_keys(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t, of_place, begins_at,
    blocks, entries, begins, bias, lse, delta, dk, dk_b, dk_h, dk_t, dv, dv_b, dv_h, dv_t,
    H, G, sets, T, S, R, N, chunk_size, offset, block_size, scale, U,
    C: tl.constexpr, CS: tl.constexpr, PER_TOKEN: tl.constexpr, BIASED: tl.constexpr, DRAWN: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv of ROWS keys, from all query heads that share them; weights are transposed."""
    group, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS
    b, g = group // G, group % G
    k, v = k + b * k_b + g * k_h, v + b * v_b + g * v_h
    dk, dv = dk + b * dk_b + g * dk_h, dv + b * dv_b + g * dv_h
    one_set = b * sets + g * sets // G
    blocks, entries, bias = blocks + one_set * R * N, entries + one_set * R * N, bias + one_set * R * N
    low = tl.load(begins + one_set * (U + 1) + min(first // block_size, U))
    high = tl.load(begins + one_set * (U + 1) + min((first + ROWS - 1) // block_size + 1, U))
    before, end, factor = S - T - offset, offset + T, scale * LOG2E
    row = first + tl.arange(0, ROWS)
    keys, values = load_rows(k, k_t, row, S, C, CS), load_rows(v, v_t, row, S, C, CS)
    block_of, place = row // block_size, row - before
    last = min(first + ROWS, S) - 1 - before
    latest = chunk_at(of_place, max(last, 0), end, chunk_size, DRAWN)
    close = tl.where(last >= 0, min(begin_of(begins_at, latest + 1, chunk_size, DRAWN), end), 0)
    dkeys, dvalues = tl.zeros([ROWS, CS], tl.float32), tl.zeros([ROWS, CS], tl.float32)
    for shared in range(0, H // G):
        h = g * (H // G) + shared
        lse_at, delta_at = lse + (b * H + h) * T, delta + (b * H + h) * T
        head = (q + b * q_b + h * q_h, q_t, dy + b * dy_b + h * dy_h, dy_t, lse_at, delta_at)
        for start in range(max(first - before, offset), close, COLS):  # the own chunk
            u = start + tl.arange(0, COLS)
            t = tl.where(u < close, u - offset, T)
            loaded = load_queries(head, t, T, C, CS)
            start_of = begin_of(begins_at, chunk_at(of_place, u, end, chunk_size, DRAWN), chunk_size, DRAWN)
            visible = (place[:, None] <= u[None, :]) & (place[:, None] >= start_of[None, :])
            x = dot(keys, tl.trans(loaded[0])) * factor
            x = tl.where(visible & (t < T)[None, :], x, float("-inf"))
            dkeys, dvalues = add_queries(x, values, loaded, dkeys, dvalues)
        if PER_TOKEN:
            dkeys, dvalues = add_tokens(
                head, blocks, entries, bias, low, high, keys, values, block_of, factor, dkeys, dvalues, T, N,
                C, CS, BIASED, COLS,
            )  # fmt: skip
        else:
            for at in range(low, high):  # the chunks that chose a block of these keys
                entry, block = tl.load(entries + at), tl.load(blocks + at)
                chunk = begin_of(begins_at, entry // N, chunk_size, DRAWN)
                stop = min(begin_of(begins_at, entry // N + 1, chunk_size, DRAWN), end)
                for start in range(max(chunk, offset), stop, COLS):
                    u = start + tl.arange(0, COLS)
                    t = tl.where(u < stop, u - offset, T)
                    loaded = load_queries(head, t, T, C, CS)
                    x = dot(keys, tl.trans(loaded[0])) * factor
                    if BIASED:
                        x += tl.load(bias + entry) * LOG2E
                    x = tl.where((block_of == block)[:, None] & (t < T)[None, :], x, float("-inf"))
                    dkeys, dvalues = add_queries(x, values, loaded, dkeys, dvalues)
    store_rows(dk, dk_t, row, S, dkeys * scale, C, CS)
    store_rows(dv, dv_t, row, S, dvalues, C, CS)
