"""The backward kernels of `triton_scan`: the gradient of the states, then the rest chunk by chunk."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.linear_attention.triton_tiles import decayed, faded, load_column
from zoo.kernels.tiles import dot, load_block, store_block


@triton.jit
def _slopes(
    dy, dy_b, dy_h, dy_t, y, y_b, y_h, y_t, total, slope,
    H, T,
    V: tl.constexpr, VS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The gradient of each token's denominator: -(sum of dy y over V) / total."""
    head, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    b, h = head // H, head % H
    through = tl.zeros([CHUNK], tl.float32)
    for first in range(0, V, VS):
        upstream = load_block(dy + b * dy_b + h * dy_h, dy_t, i, T, first, V, VS).to(tl.float32)
        through += tl.sum(upstream * load_block(y + b * y_b + h * y_h, y_t, i, T, first, V, VS), 1)
    tl.store(slope + head * T + i, -through / load_column(total + head * T, i, T, 1.0), mask=i < T)


@triton.jit
def _states_back(
    q, q_b, q_h, q_t, dy, dy_b, dy_h, dy_t, until, total, slope, dlast_kv, dlast_z,
    dstates, dz_states, dkv, dz,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One program: a block [VS KS] of the gradient of a head's state, from the last chunk to the first."""
    head, first_k, first_v = tl.program_id(0).to(tl.int64), tl.program_id(1) * KS, tl.program_id(2) * VS
    b, h, chunks = head // H, head % H, tl.cdiv(T, CHUNK)
    q, dy = q + b * q_b + h * q_h, dy + b * dy_b + h * dy_h
    rows, columns = first_v + tl.arange(0, VS), first_k + tl.arange(0, KS)
    dS, sums = tl.zeros([VS, KS], tl.float32), tl.zeros([KS], tl.float32)
    if dlast_kv is not None:
        dS += tl.trans(load_block(dlast_kv + head * K * V, V, columns, K, first_v, V, VS).to(tl.float32))
    if dlast_z is not None:
        sums += load_column(dlast_z + head * K, columns, K, 0.0).to(tl.float32)
    for back in range(0, chunks):
        n = chunks - 1 - back
        i = n * CHUNK + tl.arange(0, CHUNK)
        store_block(dstates + (head * chunks + n) * V * K, K, rows, V, first_k, dS, K, KS)
        queries = load_block(q, q_t, i, T, first_k, K, KS)
        upstream = load_block(dy, dy_t, i, T, first_v, V, VS)
        if total is not None:
            if first_v == 0:
                tl.store(dz_states + (head * chunks + n) * K + columns, sums, mask=columns < K)
            sums += tl.sum(queries * load_column(slope + head * T, i, T, 0.0)[:, None], 0)
            upstream = upstream / load_column(total + head * T, i, T, 1.0)[:, None]
        if until is not None:
            dS *= faded(load_column(until + head * T, min((n + 1) * CHUNK, T) - 1, T, 0.0))
            upstream = upstream * faded(load_column(until + head * T, i, T, 0.0))[:, None]
        dS = dot(tl.trans(upstream), queries, dS)
    store_block(dkv + head * K * V, V, columns, K, first_v, tl.trans(dS), V, VS)
    if total is not None and first_v == 0:
        tl.store(dz + head * K + columns, sums, mask=columns < K)


@triton.jit
def _values(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, dy, dy_b, dy_h, dy_t, until, total, dstates,
    dv, dv_b, dv_h, dv_t,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """VS channels of dv of one chunk; OTHER queries pass by at once."""
    head, n, first_v = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * VS
    b, h, chunk = head // H, head % H, head * tl.num_programs(1) + n
    q, k, dy = q + b * q_b + h * q_h, k + b * k_b + h * k_h, dy + b * dy_b + h * dy_h
    j, rows, end = n * CHUNK + tl.arange(0, CHUNK), first_v + tl.arange(0, VS), min((n + 1) * CHUNK, T)
    out = tl.zeros([CHUNK, VS], tl.float32)
    for first in range(0, K, KS):
        dS = load_block(dstates + chunk * V * K, K, rows, V, first, K, KS)
        out = dot(load_block(k, k_t, j, T, first, K, KS), tl.trans(dS), out)
    if until is not None:
        until += head * T
        out *= faded(tl.load(until + end - 1) - load_column(until, j, T, 0.0))[:, None]
    for start in range(n * CHUNK, end, OTHER):
        i = start + tl.arange(0, OTHER)
        weights = tl.zeros([CHUNK, OTHER], tl.float32)
        for first in range(0, K, KS):
            keys, queries = load_block(k, k_t, j, T, first, K, KS), load_block(q, q_t, i, T, first, K, KS)
            weights = dot(keys, tl.trans(queries), weights)
        if total is not None:
            weights /= load_column(total + head * T, i, T, 1.0)[None, :]
        weights = tl.where(j[:, None] <= i[None, :], decayed(weights, until, j, i, T), 0.0)
        out = dot(weights, load_block(dy, dy_t, i, T, first_v, V, VS), out)
    store_block(dv + b * dv_b + h * dv_h, dv_t, j, T, first_v, out, V, VS)


@triton.jit
def _keys(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t,
    until, total, slope, dstates, dz_states, dk, dk_b, dk_h, dk_t, written,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """KS channels of dk of one chunk, and, for `_queries`, of what each token wrote for later chunks."""
    head, n, first_k = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * KS
    b, h, chunk = head // H, head % H, head * tl.num_programs(1) + n
    q, k = q + b * q_b + h * q_h, k + b * k_b + h * k_h
    v, dy = v + b * v_b + h * v_h, dy + b * dy_b + h * dy_h
    j, columns, end = n * CHUNK + tl.arange(0, CHUNK), first_k + tl.arange(0, KS), min((n + 1) * CHUNK, T)
    out = tl.zeros([CHUNK, KS], tl.float32)
    for first in range(0, V, VS):
        dS = load_block(dstates + chunk * V * K, K, first + tl.arange(0, VS), V, first_k, K, KS)
        out = dot(load_block(v, v_t, j, T, first, V, VS), dS, out)
    if total is not None:
        out += load_column(dz_states + chunk * K, columns, K, 0.0)[None, :]
    if until is not None:
        until += head * T
        out *= faded(tl.load(until + end - 1) - load_column(until, j, T, 0.0))[:, None]
    if written is not None:
        written += (tl.program_id(2) * tl.num_programs(0) + head) * T
        tl.store(written + j, tl.sum(out * load_block(k, k_t, j, T, first_k, K, KS), 1), mask=j < T)
    for start in range(n * CHUNK, end, OTHER):
        i = start + tl.arange(0, OTHER)
        dp = tl.zeros([CHUNK, OTHER], tl.float32)
        for first in range(0, V, VS):
            values, upstream = (
                load_block(v, v_t, j, T, first, V, VS),
                load_block(dy, dy_t, i, T, first, V, VS),
            )
            dp = dot(values, tl.trans(upstream), dp)
        if total is not None:
            dp = dp / load_column(total + head * T, i, T, 1.0)[None, :]
            dp += load_column(slope + head * T, i, T, 0.0)[None, :]
        dp = tl.where(j[:, None] <= i[None, :], decayed(dp, until, j, i, T), 0.0)
        out = dot(dp, load_block(q, q_t, i, T, first_k, K, KS), out)
    store_block(dk + b * dk_b + h * dk_h, dk_t, j, T, first_k, out, K, KS)


@triton.jit
def _queries(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t,
    until, total, slope, states, dstates, z_states, dq, dq_b, dq_h, dq_t, written, dg,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """KS channels of dq of one chunk, and what they bring to dg: all that crosses a step's decay.

    Crossing it are pairs of tokens on its two sides, what later tokens read of the state before the chunk,
    what earlier ones wrote for later chunks, and the state itself.  As sums: differences of running ones
    would leave what strong decays make small to rounding.
    """
    head, n, first_k = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * KS
    b, h, chunk = head // H, head % H, head * tl.num_programs(1) + n
    q, k = q + b * q_b + h * q_h, k + b * k_b + h * k_h
    v, dy = v + b * v_b + h * v_h, dy + b * dy_b + h * dy_h
    i, columns, end = n * CHUNK + tl.arange(0, CHUNK), first_k + tl.arange(0, KS), min((n + 1) * CHUNK, T)
    out, kept = tl.zeros([CHUNK, KS], tl.float32), tl.zeros([KS], tl.float32)
    for first in range(0, V, VS):
        S = load_block(states + chunk * V * K, K, first + tl.arange(0, VS), V, first_k, K, KS)
        out = dot(load_block(dy, dy_t, i, T, first, V, VS), S, out)
        if dg is not None:
            dS = load_block(dstates + chunk * V * K, K, first + tl.arange(0, VS), V, first_k, K, KS)
            kept += tl.sum(S.to(tl.float32) * dS.to(tl.float32), 0)
    if total is not None:
        total, slope = total + head * T, slope + head * T
        out = out / load_column(total, i, T, 1.0)[:, None]
        out += (
            load_column(slope, i, T, 0.0)[:, None]
            * load_column(z_states + chunk * K, columns, K, 0.0)[None, :]
        )
    if until is not None:
        until += head * T
        out *= faded(load_column(until, i, T, 0.0))[:, None]
    crossing = tl.zeros([CHUNK], tl.float32)  # of each later token, the next step's decay
    lost = 0.0  # what earlier tokens wrote, and the state before the chunk
    if dg is not None:
        dg += (tl.program_id(2) * tl.num_programs(0) + head) * T
        written += (tl.program_id(2) * tl.num_programs(0) + head) * T
        crossing += tl.sum(out * load_block(q, q_t, i, T, first_k, K, KS), 1)
        lost = tl.sum(kept, 0) * faded(tl.load(until + end - 1))
        tl.store(dg + n * CHUNK, tl.sum(crossing, 0) + lost)
    for start in range(n * CHUNK, end, OTHER):
        j = start + tl.arange(0, OTHER)
        dp = tl.zeros([CHUNK, OTHER], tl.float32)
        for first in range(0, V, VS):
            upstream, values = (
                load_block(dy, dy_t, i, T, first, V, VS),
                load_block(v, v_t, j, T, first, V, VS),
            )
            dp = dot(upstream, tl.trans(values), dp)
        if total is not None:
            dp = dp / load_column(total, i, T, 1.0)[:, None] + load_column(slope, i, T, 0.0)[:, None]
        dp = tl.where(i[:, None] >= j[None, :], decayed(dp, until, i, j, T), 0.0)
        keys = load_block(k, k_t, j, T, first_k, K, KS)
        out = dot(dp, keys, out)
        if dg is not None:
            pairs = dp * dot(load_block(q, q_t, i, T, first_k, K, KS), tl.trans(keys))
            later = tl.where(i[:, None] > j[None, :], tl.cumsum(pairs, 1) + crossing[:, None], 0.0)
            mine = load_column(written, j, T, 0.0)
            step = tl.sum(later, 0) + tl.cumsum(mine, 0) + lost
            tl.store(dg + j + 1, step, mask=j + 1 < end)
            crossing += tl.sum(pairs, 1)
            lost += tl.sum(mine, 0)
    store_block(dq + b * dq_b + h * dq_h, dq_t, i, T, first_k, out, K, KS)
