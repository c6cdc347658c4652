"""The kernels of the delta rule's backward pass: see triton.py, where the formulas stand.

Where a matrix is needed in both directions, its transpose is a product of its own: the result of a product
is best not transposed in registers on Hopper, where several versions of Triton went wrong on it.

What is done at once is held at once: products have loops of their own, rows are read again for each, and
nothing is moved out of a loop (disable_licm).  One loop for all of them spilt registers on sm_80.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportGeneralTypeIssues=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.delta_rule.triton_forward import (
    left,
    left_transposed,
    load_each,
    load_sums,
    load_tile,
    queries_of,
    store_tile,
    to_end,
)
from zoo.kernels.tiles import dot


@triton.jit
def products(
    a, a_t, a_rows, a_length, b, b_t, b_rows, b_length, width, AT_ONCE: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    """Rows of a with rows of b, over `width` columns."""
    found = tl.zeros([CHUNK, CHUNK], tl.float32)
    for first in tl.range(0, width, AT_ONCE, disable_licm=True):
        columns = first + tl.arange(0, AT_ONCE)
        others = tl.trans(load_tile(b, b_t, b_rows, b_length, columns, width))
        found = dot(load_tile(a, a_t, a_rows, a_length, columns, width), others, found)
    return found


@triton.jit
def fade_transposed(x, sums, head, rows, length, CHUNK: tl.constexpr):
    """x times what is left after its column of what was there after its row; 0 in earlier columns."""
    if sums is not None:
        x *= left_transposed(load_sums(sums, head, rows, length), CHUNK)
    else:
        x = tl.where(tl.arange(0, CHUNK)[:, None] <= tl.arange(0, CHUNK)[None, :], x, 0.0)
    return x


@triton.jit
def _pull(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, dy, dy_b, dy_h, dy_t, sums, derrors, dstarts,
    H, T, K, V, KEYS: tl.constexpr, VALUES: tl.constexpr, CHUNK: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """What the answers of a chunk ask of what is written in it, P^T dy, and of its start, Q^T diag(e) dy."""
    head, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, h = head // H, head % H
    q, k, dy = q + b * q_b + h * q_h, k + b * k_b + h * k_h, dy + b * dy_b + h * dy_h
    dstarts += (head * tl.num_programs(1) + chunk) * K * V
    i, columns = chunk * CHUNK + tl.arange(0, CHUNK), tl.program_id(2) * VALUES + tl.arange(0, VALUES)
    reading = queries_of(i, T // EACH, EACH)
    weights = products(k, k_t, i, T, q, q_t, reading, T // EACH, K, KEYS, CHUNK)
    weights = fade_transposed(weights, sums, head, i, T, CHUNK)
    upstream = load_tile(dy, dy_t, reading, T // EACH, columns, V)
    found = dot(weights.to(upstream.dtype), upstream)
    store_tile(derrors + head * T * V, V, i, T, columns, V, found)
    if sums is not None:
        since = tl.exp(load_sums(sums, head, i, T).to(tl.float32))
        upstream = (upstream * since[:, None]).to(upstream.dtype)
    for start in tl.range(0, K, KEYS, disable_licm=True):
        channels = start + tl.arange(0, KEYS)
        queries = load_tile(q, q_t, reading, T // EACH, channels, K)
        store_tile(dstarts, V, channels, K, columns, V, dot(tl.trans(queries), upstream))


@triton.jit
def _walk_back(
    k, k_b, k_h, k_t, beta, beta_b, beta_h, beta_t, sums,
    inverses, dlast, derrors, dstarts, dends, dv, dv_b, dv_h, dv_t, dstate,
    H, T,
    K: tl.constexpr, KEYS: tl.constexpr, V: tl.constexpr, VALUES: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The gradients of the errors and of the state after each chunk, the last one first.

    derrors, dstarts: come with what `_pull` found.  The state's gradient is held as `_walk` holds the state.
    """
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    k, beta, dv = k + b * k_b + h * k_h, beta + b * beta_b + h * beta_h, dv + b * dv_b + h * dv_h
    inverses, derrors = inverses + head * T * CHUNK, derrors + head * T * V
    columns, own = tl.program_id(1) * VALUES + tl.arange(0, VALUES), tl.arange(0, CHUNK)
    upper, lower = tl.arange(0, KEYS), KEYS + tl.arange(0, KEYS)
    dS, dS2 = tl.zeros([KEYS, VALUES], tl.float32), tl.zeros([KEYS, VALUES], tl.float32)
    if dlast is not None:
        dS += load_tile(dlast + head * K * V, V, upper, K, columns, V)
        if K > KEYS:
            dS2 += load_tile(dlast + head * K * V, V, lower, K, columns, V)
    for back in range(0, tl.cdiv(T, CHUNK)):
        chunk = tl.cdiv(T, CHUNK) - 1 - back
        i, place = chunk * CHUNK + own, (head * tl.cdiv(T, CHUNK) + chunk) * K * V
        store_tile(dends + place, V, upper, K, columns, V, dS)
        keys = load_tile(k, k_t, i, T, upper, K)
        asked = dot(keys, dS.to(keys.dtype))
        if K > KEYS:
            store_tile(dends + place, V, lower, K, columns, V, dS2)
            asked = dot(load_tile(k, k_t, i, T, lower, K), dS2.to(keys.dtype), asked)
        if sums is not None:
            whole, rest = to_end(sums, head, i, T)
            asked *= rest[:, None]
            dS *= whole
            dS2 *= whole
        asked += load_tile(derrors, V, i, T, columns, V).to(tl.float32)
        found = dot(tl.trans(load_tile(inverses, CHUNK, i, T, own, CHUNK)), asked)
        store_tile(derrors, V, i, T, columns, V, found)
        found *= load_each(beta, beta_t, i, T)[:, None]
        store_tile(dv, dv_t, i, T, columns, V, found)
        if sums is not None:
            found *= tl.exp(load_sums(sums, head, i, T).to(tl.float32))[:, None]
        found = (-found).to(keys.dtype)
        dS += load_tile(dstarts + place, V, upper, K, columns, V).to(tl.float32)
        dS = dot(tl.trans(load_tile(k, k_t, i, T, upper, K)), found, dS)
        if K > KEYS:
            dS2 += load_tile(dstarts + place, V, lower, K, columns, V).to(tl.float32)
            dS2 = dot(tl.trans(load_tile(k, k_t, i, T, lower, K)), found, dS2)
    store_tile(dstate + head * K * V, V, upper, K, columns, V, dS)
    if K > KEYS:
        store_tile(dstate + head * K * V, V, lower, K, columns, V, dS2)


@triton.jit
def _queries(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, dy, dy_b, dy_h, dy_t, sums,
    starts, written, dq, dq_b, dq_h, dq_t, dread,
    H, T, K, V, KEYS: tl.constexpr, VALUES: tl.constexpr, CHUNK: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """dq of one chunk, and dread, what its answers contribute to the gradient of log_decay."""
    head, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, h = head // H, head % H
    q, k, dy, dq = (
        q + b * q_b + h * q_h,
        k + b * k_b + h * k_h,
        dy + b * dy_b + h * dy_h,
        dq + b * dq_b + h * dq_h,
    )
    starts, written = starts + (head * tl.num_programs(1) + chunk) * K * V, written + head * T * V
    i, own = chunk * CHUNK + tl.arange(0, CHUNK), tl.arange(0, CHUNK)
    reading = queries_of(i, T // EACH, EACH)
    dweights = products(dy, dy_t, reading, T // EACH, written, V, i, T, V, VALUES, CHUNK)
    if sums is not None:
        until = load_sums(sums, head, i, T)
        dweights *= left(until, CHUNK)
        since = tl.exp(until.to(tl.float32))
        dsince = tl.zeros([CHUNK], tl.float32)
    else:
        dweights = tl.where(own[:, None] >= own[None, :], dweights, 0.0)
    for start in tl.range(0, K, KEYS, disable_licm=True):
        channels = start + tl.arange(0, KEYS)
        keys = load_tile(k, k_t, i, T, channels, K)
        grads = tl.zeros([CHUNK, KEYS], tl.float32)
        for first in tl.range(0, V, VALUES, disable_licm=True):
            columns = first + tl.arange(0, VALUES)
            upstream = load_tile(dy, dy_t, reading, T // EACH, columns, V)
            grads = dot(upstream, tl.trans(load_tile(starts, V, channels, K, columns, V)), grads)
        if sums is not None:
            grads *= since[:, None]
            queries = load_tile(q, q_t, reading, T // EACH, channels, K)
            dsince += tl.sum(queries.to(tl.float32) * grads, 1)
        grads = dot(dweights.to(keys.dtype), keys, grads)
        store_tile(dq, dq_t, reading, T // EACH, channels, K, grads)
    if sums is not None:
        weights = products(q, q_t, reading, T // EACH, k, k_t, i, T, K, KEYS, CHUNK)
        weights = tl.where(own[:, None] > own[None, :], weights, 0.0)
        found = suffixes(between_rows(dweights * weights) + dsince, CHUNK)
        tl.store(dread + head * T + i, found, mask=i < T)


@triton.jit
def between_rows(F):
    """The gradient of each sum, where F[i, j] is that of sum_i - sum_j.

    In float64, where what a later sum takes back from an earlier one leaves nothing behind.
    """
    F = F.to(tl.float64)
    return tl.sum(F, 1) - tl.sum(F, 0)


@triton.jit
def suffixes(x, CHUNK: tl.constexpr):
    """The sum from each row on: the gradient of log_decay, where x is that of its running sum."""
    i, j = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    return tl.sum(tl.where(i <= j, x.to(tl.float64)[None, :], 0.0), 1)


@triton.jit
def _keys(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t,
    beta, beta_b, beta_h, beta_t, sums,
    starts, written, derrors, dends, dread, dk, dk_b, dk_h, dk_t, dbeta, dlogs,
    H, T, K, V, KEYS: tl.constexpr, VALUES: tl.constexpr, CHUNK: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """dk and dbeta of one chunk, and the rest of the gradient of log_decay."""
    head, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, h = head // H, head % H
    q, k, v, dy = (
        q + b * q_b + h * q_h,
        k + b * k_b + h * k_h,
        v + b * v_b + h * v_h,
        dy + b * dy_b + h * dy_h,
    )
    beta, dk = beta + b * beta_b + h * beta_h, dk + b * dk_b + h * dk_h
    place = (head * tl.num_programs(1) + chunk) * K * V
    starts, dends = starts + place, dends + place
    written, derrors = written + head * T * V, derrors + head * T * V
    i, own = chunk * CHUNK + tl.arange(0, CHUNK), tl.arange(0, CHUNK)
    reading = queries_of(i, T // EACH, EACH)
    rates = load_each(beta, beta_t, i, T)
    drates = tl.zeros([CHUNK], tl.float32)
    for first in tl.range(0, V, VALUES, disable_licm=True):
        columns = first + tl.arange(0, VALUES)
        wanted = load_tile(v, v_t, i, T, columns, V).to(tl.float32)
        drates += tl.sum(load_tile(derrors, V, i, T, columns, V).to(tl.float32) * wanted, 1)
    # columns are keys here, rows in `turned` and `dweights`
    overlaps = products(derrors, V, i, T, written, V, i, T, V, VALUES, CHUNK)
    if sums is not None:
        until = load_sums(sums, head, i, T)
        since = tl.exp(until.to(tl.float32))
        whole, rest = to_end(sums, head, i, T)
        drest, dwhole = tl.zeros([CHUNK], tl.float32), tl.zeros([KEYS], tl.float32)
        overlaps *= left(until, CHUNK)
    overlaps = tl.where(own[:, None] > own[None, :], -overlaps, 0.0)
    meets = products(k, k_t, i, T, k, k_t, i, T, K, KEYS, CHUNK)
    drates += tl.sum(overlaps * meets, 1)
    overlaps *= rates[:, None]
    if sums is not None:
        dsince = between_rows(overlaps * meets)
    turned = products(written, V, i, T, derrors, V, i, T, V, VALUES, CHUNK)
    turned = fade_transposed(turned, sums, head, i, T, CHUNK)
    both = overlaps - tl.where(own[:, None] < own[None, :], turned * rates[None, :], 0.0)
    dweights = products(written, V, i, T, dy, dy_t, reading, T // EACH, V, VALUES, CHUNK)
    dweights = fade_transposed(dweights, sums, head, i, T, CHUNK)
    for start in tl.range(0, K, KEYS, disable_licm=True):
        channels = start + tl.arange(0, KEYS)
        keys = load_tile(k, k_t, i, T, channels, K)
        through, grads = tl.zeros([CHUNK, KEYS], tl.float32), tl.zeros([CHUNK, KEYS], tl.float32)
        for first in tl.range(0, V, VALUES, disable_licm=True):
            columns = first + tl.arange(0, VALUES)
            S, dS = (
                load_tile(starts, V, channels, K, columns, V),
                load_tile(dends, V, channels, K, columns, V),
            )
            through = dot(load_tile(derrors, V, i, T, columns, V), tl.trans(S), through)
            grads = dot(load_tile(written, V, i, T, columns, V), tl.trans(dS), grads)
            if sums is not None:
                dwhole += tl.sum(S.to(tl.float32) * dS.to(tl.float32), 1)
        wide = keys.to(tl.float32)
        if sums is not None:
            through *= since[:, None]
            grads *= rest[:, None]
            dsince -= rates * tl.sum(wide * through, 1)
            drest += tl.sum(wide * grads, 1)
        drates -= tl.sum(wide * through, 1)
        grads -= rates[:, None] * through
        grads = dot(both.to(keys.dtype), keys, grads)
        queries = load_tile(q, q_t, reading, T // EACH, channels, K)
        grads = dot(dweights.to(queries.dtype), queries, grads)
        store_tile(dk, dk_t, i, T, channels, K, grads)
    tl.store(dbeta + head * T + i, drates, mask=i < T)
    if sums is not None:
        found = suffixes(dsince, CHUNK) + whole * tl.sum(dwhole, 0)
        found += tl.sum(tl.where(own[:, None] > own[None, :], drest[None, :], 0.0), 1)
        found += load_each(dread + head * T, 1, i, T)
        tl.store(dlogs + head * T + i, found, mask=i < T)
