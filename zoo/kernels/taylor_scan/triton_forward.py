"""The kernels of Taylor linear attention: sums over chunks, what each token reads, and one token alone.

CS and VS are C and V filled up to a power of two; tiles of BLOCK features.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from zoo.kernels.common.tiles import dot, load_rows, store_rows
from zoo.kernels.taylor_scan.triton_features import factors, load_picks, one, pick, places


@triton.jit(do_not_specialize=["T", "span", "started"])
def _sums(
    x, x_b, x_h, x_t, u, u_b, u_h, u_t, share, delta,
    start_kv, start_z, span_kv, span_z, chunk_kv, chunk_z, end_kv, end_z,
    H, T, span, started,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr, F: tl.constexpr,
    CHUNK: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr,
    BACK: tl.constexpr, KEEP: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Sum phi(x) u^T and phi(x) over a span of chunks: BLOCK features of a head.

    KEEP False: what the span adds, into span_*.  True: the sums before each chunk, into chunk_*, and after
    the last, into end_*; it starts from start_*, where `started`, and what the spans before added.
    BACK: from the last chunk to the first, phi(x) is multiplied by share, and counts -delta times.
    WHOLE: the last chunk is full.  What is added is phi(x) / root; chunk_* carry root twice, for the factor
    of phi(q) too, so that readers multiply channels only.
    """
    head, f = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x += head // H * x_b + head % H * x_h
    u += head // H * u_b + head % H * u_h
    i, j, power = factors(f, C, CS)
    root = tl.sqrt(power)
    pick_i, pick_j = tl.trans(pick(i, CS)), tl.trans(pick(j, CS))
    one_i = tl.broadcast_to(one(i, C)[:, None], [BLOCK, COLS])
    constant = (f == 0).to(tl.float32)[:, None]
    kv, z = tl.zeros([BLOCK, VS], tl.float32), tl.zeros([BLOCK], tl.float32)
    chunks, steps = tl.cdiv(T, CHUNK), CHUNK // COLS
    first, last = tl.program_id(2) * span, min((tl.program_id(2) + 1) * span, chunks)
    if KEEP:
        if started > 0:
            kv, z = _add(start_kv, start_z, head, f, kv, z, F, V, VS)
        for before in range(0, tl.program_id(2)):
            kv, z = _add(span_kv, span_z, head * tl.num_programs(2) + before, f, kv, z, F, V, VS)
        kv, z = kv / root[:, None], z / root
        at = head * chunks + (chunks - 1 - first if BACK else first)
        _store(chunk_kv, chunk_z, at, f, kv, z, power, F, V, VS)
    for step in range(first * steps, last * steps):  # one loop, so that loads run ahead into the next chunk
        n = chunks - 1 - step // steps if BACK else step // steps
        t = n * CHUNK + step % steps * COLS + tl.arange(0, COLS)
        channels = tl.trans(load_rows(x, x_t, t, None if WHOLE else T, C, CS))
        phi = dot(pick_i, channels, one_i) * dot(pick_j, channels)
        phi += constant if WHOLE else constant * (t < T).to(tl.float32)[None, :]
        if BACK:
            phi *= tl.load(share + head * T + t, mask=t < T, other=0.0)[None, :]
            z -= tl.sum(phi * tl.load(delta + head * T + t, mask=t < T, other=0.0)[None, :], 1)
        else:
            z += tl.sum(phi, 1)
        kv = dot(phi, load_rows(u, u_t, t, None if WHOLE else T, V, VS), kv)
        if KEEP:
            at = head * chunks + (n - 1 if BACK else n + 1)
            if (step % steps == steps - 1) & (step + 1 < last * steps):
                _store(chunk_kv, chunk_z, at, f, kv, z, power, F, V, VS)
    if not KEEP:
        _store(span_kv, span_z, head * tl.num_programs(2) + tl.program_id(2), f, kv, z, root, F, V, VS)
    elif last == chunks:
        _store(end_kv, end_z, head, f, kv, z, root, F, V, VS)


@triton.jit
def _add(from_kv, from_z, at, f, kv, z, F: tl.constexpr, V: tl.constexpr, VS: tl.constexpr):
    """Return the sums plus those stored at place `at`."""
    z += tl.load(from_z + at * F + f, mask=f < F, other=0.0)
    return kv + load_rows(from_kv + at * F * V, V, f, F, V, VS), z


@triton.jit
def _store(to_kv, to_z, at, f, kv, z, factor, F: tl.constexpr, V: tl.constexpr, VS: tl.constexpr):
    """Store the sums, times a factor of each feature, to place `at`."""
    store_rows(to_kv + at * F * V, V, f, F, kv * factor[:, None], V, VS)
    tl.store(to_z + at * F + f, z * factor, mask=f < F)


@triton.jit(do_not_specialize=["T", "started"])
def _outputs(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, y, y_b, y_h, y_t, share, chunk_kv, chunk_z, picks,
    H, T, started, scale, eps,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr, F: tl.constexpr,
    CHUNK: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute y of ROWS queries of a head: their chunk through weights, the chunks before through sums.

    A weight is r^2 + 1/2 with r = (1 + u) / sqrt 2.
    """
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS
    q += head // H * q_b + head % H * q_h
    k += head // H * k_b + head % H * k_h
    v += head // H * v_b + head % H * v_h
    y += head // H * y_b + head % H * y_h
    n, i = first // CHUNK, first + tl.arange(0, ROWS)
    queries = load_rows(q, q_t, i, T, C, CS)
    half: tl.constexpr = 0.5**0.5
    scale *= half
    sums, weight = tl.zeros([ROWS, VS], tl.float32), tl.full([ROWS], eps, tl.float32)
    if n + started > 0:
        at = head * tl.cdiv(T, CHUNK) + n
        kv, z = chunk_kv + at * F * V, chunk_z + at * F
        weight += _weight(queries, z, C, CS)
        sums = _answer(queries, kv, picks, sums, C, CS, V, VS, F, BLOCK)
    for start in range(n * CHUNK, first, COLS):  # keys that all queries see
        j = start + tl.arange(0, COLS)
        r = dot(queries, tl.trans(load_rows(k, k_t, j, None, C, CS))) * scale + half
        w = r * r + 0.5
        sums, weight = dot(w, load_rows(v, v_t, j, None, V, VS), sums), weight + tl.sum(w, 1)
    for start in tl.static_range(0, ROWS, COLS):  # unrolled: most comparisons are decided when compiled
        column = start + tl.arange(0, COLS)
        keys, values = (
            load_rows(k, k_t, first + column, T, C, CS),
            load_rows(v, v_t, first + column, T, V, VS),
        )
        r = dot(queries, tl.trans(keys)) * scale + half
        w = tl.where(column[None, :] <= tl.arange(0, ROWS)[:, None], r * r + 0.5, 0.0)
        sums, weight = dot(w, values, sums), weight + tl.sum(w, 1)
    part = 1 / weight
    store_rows(y, y_t, i, T, sums * part[:, None], V, VS)
    tl.store(share + head * T + i, part, mask=i < T)


@triton.jit
def _weight(queries, z, C: tl.constexpr, CS: tl.constexpr):
    """Return phi(q) z: a polynomial of the queries, whose squares are put into a matrix."""
    c = tl.arange(0, CS)
    squares = tl.load(z + places(C, CS), mask=(c[:, None] <= c[None, :]) & (c < C)[None, :], other=0.0)
    linear = tl.load(z + 1 + c, mask=c < C, other=0.0)
    high = squares.to(queries.dtype)  # in two parts, as z has more bits than a query
    low = (squares - high.to(tl.float32)).to(queries.dtype)
    by_channel = dot(queries, low, dot(queries, high)) + linear[None, :]
    return tl.sum(by_channel * queries.to(tl.float32), 1) + tl.load(z)


@triton.jit
def _answer(
    queries, kv, picks, sums,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr, F: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Return the sums plus phi(q) kv, for the features 1, the channels, and tiles of their products."""
    column = tl.arange(0, VS)
    sums += tl.load(kv + column, mask=column < V, other=0.0).to(tl.float32)[None, :]
    sums = dot(queries, load_rows(kv + V, V, tl.arange(0, CS), C, V, VS), sums)
    for tile in range(C + 1, F, BLOCK):
        f = tile + tl.arange(0, BLOCK)
        left, right = load_picks(picks, f, CS, F)
        phi = dot(queries, tl.trans(left)) * dot(queries, tl.trans(right))
        sums = dot(phi, load_rows(kv, V, f, F, V, VS), sums)
    return sums


@triton.jit(do_not_specialize=["started"])
def _step(
    q, q_b, q_h, k, k_b, k_h, v, v_b, v_h, y, y_b, y_h, share, start_kv, start_z, end_kv, end_z,
    H, started, eps,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, F: tl.constexpr,
    COLS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Process one token: read COLS columns of the sums once, add to them, compute y, and write them once."""
    head, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLS + tl.arange(0, COLS)
    q += head // H * q_b + head % H * q_h
    k += head // H * k_b + head % H * k_h
    value = tl.load(v + head // H * v_b + head % H * v_h + column, mask=column < V, other=0.0).to(tl.float32)
    sums, weight = tl.zeros([COLS], tl.float32), tl.zeros([BLOCK], tl.float32)
    for tile in range(0, F, BLOCK):
        f = tile + tl.arange(0, BLOCK)
        i, j, power = factors(f, C, CS)
        root = tl.where(f < F, tl.sqrt(power), 0.0)
        phi_q = _channel(q, i, C) * _channel(q, j, C) * root
        phi_k = _channel(k, i, C) * _channel(k, j, C) * root
        z, kv = phi_k, phi_k[:, None] * value[None, :]
        rows = (head * F + f)[:, None] * V + column[None, :]
        mask = (f < F)[:, None] & (column < V)[None, :]
        if started > 0:
            z += tl.load(start_z + head * F + f, mask=f < F, other=0.0)
            kv += tl.load(start_kv + rows, mask=mask, other=0.0)
        tl.store(end_kv + rows, kv, mask=mask)
        if tl.program_id(1) == 0:
            tl.store(end_z + head * F + f, z, mask=f < F)
        sums += tl.sum(phi_q[:, None] * kv, 0)
        weight += phi_q * z
    part = 1 / (tl.sum(weight, 0) + eps)
    at = y + head // H * y_b + head % H * y_h + column
    tl.store(at, (sums * part).to(y.dtype.element_ty), mask=column < V)
    if tl.program_id(1) == 0:
        tl.store(share + head, part)


@triton.jit
def _channel(x, channel, C: tl.constexpr):
    return tl.load(x + channel, mask=(channel >= 0) & (channel < C), other=1.0).to(tl.float32)
