"""The backward kernels of Taylor linear attention: gradients of the queries, and of the keys and values.

CS and VS are C and V filled up to a power of two; tiles of BLOCK features.  A gradient d of a feature x_i x_j
is d x_j for channel i and d x_i for channel j.
"""

# pyright: reportArgumentType=false, reportCallIssue=false

import triton
import triton.language as tl

from zoo.kernels.common.tiles import dot, load_rows, store_rows
from zoo.kernels.taylor_scan.triton_features import load_picks, ones


@triton.jit(do_not_specialize=["T", "started"])
def _queries(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t, y, y_b, y_h, y_t,
    share, delta, chunk_kv, chunk_z, picks, dq, dq_b, dq_h, dq_t,
    H, T, started, scale,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr, F: tl.constexpr,
    CHUNK: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute dq of ROWS queries, and delta, the sum of dy y, for the other kernels."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS
    q += head // H * q_b + head % H * q_h
    k += head // H * k_b + head % H * k_h
    v += head // H * v_b + head % H * v_h
    dy += head // H * dy_b + head % H * dy_h
    y += head // H * y_b + head % H * y_h
    dq += head // H * dq_b + head % H * dq_h
    n, i = first // CHUNK, first + tl.arange(0, ROWS)
    queries, upstream = load_rows(q, q_t, i, T, C, CS), load_rows(dy, dy_t, i, T, V, VS)
    through = tl.sum(upstream.to(tl.float32) * load_rows(y, y_t, i, T, V, VS).to(tl.float32), 1)
    tl.store(delta + head * T + i, through, mask=i < T)
    sums = tl.zeros([ROWS, CS], tl.float32)
    for start in range(n * CHUNK, first, COLS):
        j = start + tl.arange(0, COLS)
        keys = load_rows(k, k_t, j, None, C, CS)
        r = dot(queries, tl.trans(keys)) * scale + 1
        dp = dot(upstream, tl.trans(load_rows(v, v_t, j, None, V, VS)))
        sums = dot((dp - through[:, None]) * r, keys, sums)
    for start in range(first, min(first + ROWS, T), COLS):
        j = start + tl.arange(0, COLS)
        keys = load_rows(k, k_t, j, T, C, CS)
        r = dot(queries, tl.trans(keys)) * scale + 1
        dp = dot(upstream, tl.trans(load_rows(v, v_t, j, T, V, VS)))
        ds = tl.where(j[None, :] <= i[:, None], (dp - through[:, None]) * r, 0.0)
        sums = dot(ds, keys, sums)
    sums *= scale
    at = head * tl.cdiv(T, CHUNK) + n
    for tile in range(0, min(n + started, 1) * F, BLOCK):
        f = tile + tl.arange(0, BLOCK)
        left, right = load_picks(picks, f, CS, F)
        one_left, one_right = ones(f, C)
        kv = load_rows(chunk_kv + at * F * V, V, f, F, V, VS)
        z = tl.load(chunk_z + at * F + f, mask=f < F, other=0.0)
        d = dot(upstream, tl.trans(kv)) - through[:, None] * z[None, :]
        sums = dot(d * (dot(queries, tl.trans(right)) + one_right), left, sums)
        sums = dot(d * (dot(queries, tl.trans(left)) + one_left), right, sums)
    part = tl.load(share + head * T + i, mask=i < T, other=0.0)
    store_rows(dq, dq_t, i, T, sums * part[:, None], C, CS)


@triton.jit(do_not_specialize=["T", "ended"])
def _keys(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t,
    share, delta, chunk_kv, chunk_z, picks, dk, dk_b, dk_h, dk_t, dv, dv_b, dv_h, dv_t,
    H, T, ended, scale,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr, F: tl.constexpr,
    CHUNK: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv of ROWS keys; the weights are transposed, [ROWS keys, COLS queries]."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS
    q += head // H * q_b + head % H * q_h
    k += head // H * k_b + head % H * k_h
    v += head // H * v_b + head % H * v_h
    dy += head // H * dy_b + head % H * dy_h
    dk += head // H * dk_b + head % H * dk_h
    dv += head // H * dv_b + head % H * dv_h
    n, chunks, j = first // CHUNK, tl.cdiv(T, CHUNK), first + tl.arange(0, ROWS)
    keys, values = load_rows(k, k_t, j, T, C, CS), load_rows(v, v_t, j, T, V, VS)
    dkeys, dvalues = tl.zeros([ROWS, CS], tl.float32), tl.zeros([ROWS, VS], tl.float32)
    for start in range(first, min((n + 1) * CHUNK, T), COLS):
        i = start + tl.arange(0, COLS)
        queries, upstream = load_rows(q, q_t, i, T, C, CS), load_rows(dy, dy_t, i, T, V, VS)
        part = tl.load(share + head * T + i, mask=i < T, other=0.0)
        through = tl.load(delta + head * T + i, mask=i < T, other=0.0)
        visible = tl.where(j[:, None] <= i[None, :], part[None, :], 0.0)
        r = dot(keys, tl.trans(queries)) * scale + 1
        ratio = r * visible
        dvalues = dot(r * ratio + visible, upstream, dvalues)  # 2 dv; halved below
        dp = dot(values, tl.trans(upstream))
        dkeys = dot((dp - through[None, :]) * ratio, queries, dkeys)
    dkeys, dvalues = dkeys * scale, dvalues * 0.5
    at = head * chunks + n
    for tile in range(0, min(chunks - 1 - n + ended, 1) * F, BLOCK):
        f = tile + tl.arange(0, BLOCK)
        left, right = load_picks(picks, f, CS, F)
        one_left, one_right = ones(f, C)
        kv = load_rows(chunk_kv + at * F * V, V, f, F, V, VS)
        z = tl.load(chunk_z + at * F + f, mask=f < F, other=0.0)
        a, b = dot(keys, tl.trans(left)) + one_left, dot(keys, tl.trans(right)) + one_right
        dvalues = dot(a * b, kv, dvalues)
        d = dot(values, tl.trans(kv)) + z[None, :]
        dkeys = dot(d * b, left, dkeys)
        dkeys = dot(d * a, right, dkeys)
    store_rows(dk, dk_t, j, T, dkeys, C, CS)
    store_rows(dv, dv_t, j, T, dvalues, V, VS)
