"""The forward kernels of `triton_scan`: the state before each chunk, and the outputs chunk by chunk.

States are [V K], transposed: as the left side of a product they then have the 64 rows that tensor cores ask
for, however few features there are.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.linear_attention.triton_tiles import decayed, faded, load_column, log_decays
from zoo.kernels.tiles import dot, load_block, store_block


@triton.jit
def _states(
    k, k_b, k_h, k_t, v, v_b, v_h, v_t, g, g_b, g_h, g_t, kv, z,
    states, z_states, until, last_kv, last_z,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """One program: a block [VS KS] of a head's state, from one chunk to the next."""
    head, first_k, first_v = tl.program_id(0).to(tl.int64), tl.program_id(1) * KS, tl.program_id(2) * VS
    b, h, chunks = head // H, head % H, tl.cdiv(T, CHUNK)
    k, v = k + b * k_b + h * k_h, v + b * v_b + h * v_h
    rows, columns = first_v + tl.arange(0, VS), first_k + tl.arange(0, KS)
    S, sums = tl.zeros([VS, KS], tl.float32), tl.zeros([KS], tl.float32)
    if kv is not None:
        S += tl.trans(load_block(kv + head * K * V, V, columns, K, first_v, V, VS).to(tl.float32))
    if z is not None:
        sums += load_column(z + head * K, columns, K, 0.0).to(tl.float32)
    for n in range(0, chunks):
        j = n * CHUNK + tl.arange(0, CHUNK)
        store_block(states + (head * chunks + n) * V * K, K, rows, V, first_k, S, K, KS)
        keys, values = load_block(k, k_t, j, T, first_k, K, KS), load_block(v, v_t, j, T, first_v, V, VS)
        if z_states is not None:
            if first_v == 0:
                tl.store(z_states + (head * chunks + n) * K + columns, sums, mask=columns < K)
            sums += tl.sum(keys.to(tl.float32), 0)
        if g is not None:
            fade, whole = log_decays(g + b * g_b + h * g_h, g_t, j, T)
            if first_k == 0 and first_v == 0:
                tl.store(until + head * T + j, fade, mask=j < T)
            S *= faded(whole)
            values = values.to(tl.float32) * faded(whole - fade)[:, None]
        S = dot(tl.trans(values), keys, S)
    store_block(last_kv + head * K * V, V, columns, K, first_v, tl.trans(S), V, VS)
    if z_states is not None and first_v == 0:
        tl.store(last_z + head * K + columns, sums, mask=columns < K)


@triton.jit
def _outputs(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, until, states, z_states,
    y, y_b, y_h, y_t, total,
    H, T, eps,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """One program: VS channels of the outputs of one chunk; OTHER keys pass by at once."""
    head, n, first_v = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * VS
    b, h, chunk = head // H, head % H, head * tl.num_programs(1) + n
    q, k, v = q + b * q_b + h * q_h, k + b * k_b + h * k_h, v + b * v_b + h * v_h
    i, rows = n * CHUNK + tl.arange(0, CHUNK), first_v + tl.arange(0, VS)
    out, weight = tl.zeros([CHUNK, VS], tl.float32), tl.zeros([CHUNK], tl.float32)
    for first in range(0, K, KS):
        queries = load_block(q, q_t, i, T, first, K, KS)
        S = load_block(states + chunk * V * K, K, rows, V, first, K, KS)
        out = dot(queries, tl.trans(S), out)
        if z_states is not None:
            sums = load_column(z_states + chunk * K, first + tl.arange(0, KS), K, 0.0)
            weight += tl.sum(queries.to(tl.float32) * sums[None, :], 1)
    if until is not None:
        until += head * T
        out *= faded(load_column(until, i, T, 0.0))[:, None]
    for start in range(n * CHUNK, min((n + 1) * CHUNK, T), OTHER):
        j = start + tl.arange(0, OTHER)
        weights = tl.zeros([CHUNK, OTHER], tl.float32)
        for first in range(0, K, KS):
            queries, keys = load_block(q, q_t, i, T, first, K, KS), load_block(k, k_t, j, T, first, K, KS)
            weights = dot(queries, tl.trans(keys), weights)
        weights = tl.where(i[:, None] >= j[None, :], decayed(weights, until, i, j, T), 0.0)
        weight += tl.sum(weights, 1)
        out = dot(weights, load_block(v, v_t, j, T, first_v, V, VS), out)
    if z_states is not None:
        weight += eps
        out /= weight[:, None]
        if first_v == 0:
            tl.store(total + head * T + i, weight, mask=i < T)
    store_block(y + b * y_b + h * y_h, y_t, i, T, first_v, out, V, VS)
