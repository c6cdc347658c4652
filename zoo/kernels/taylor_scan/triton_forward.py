"""The kernels of Taylor linear attention: sums over chunks, what each token reads, and one token alone.

CS and VS are C and V filled up to a power of two; tiles of BLOCK features.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.taylor_scan.triton_features import factors, load_factors, one, pick
from zoo.kernels.tiles import dot, load_rows, store_rows


@triton.jit(do_not_specialize=["T", "span", "started"])
def _sums(
    x, x_b, x_h, x_t, u, u_b, u_h, u_t, total, delta,
    start_kv, start_z, span_kv, span_z, chunk_kv, chunk_z, end_kv, end_z,
    H, T, span, started,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr, F: tl.constexpr,
    CHUNK: tl.constexpr, OTHER: tl.constexpr, BLOCK: tl.constexpr,
    BACK: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Sums of phi(x) u^T and phi(x) over a span of chunks: BLOCK features of a head.

    KEEP False: what the span adds, into span_*.  True: what stands before each chunk, into chunk_*, and after
    the last, into end_*; it starts from start_*, where `started`, and what the spans before added.
    BACK: from the last chunk to the first, u is divided by total, and phi(x) counts -delta / total times.
    chunk_* carry the factor of phi(q) too, so that who reads them multiplies channels only.
    """
    head, f = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x += head // H * x_b + head % H * x_h
    u += head // H * u_b + head % H * u_h
    i, j, power = factors(f, C, CS)
    root = tl.sqrt(power)
    pick_i, pick_j = tl.trans(pick(i, CS)), tl.trans(pick(j, CS))
    one_i, one_j = one(i, C)[:, None], (one(j, C) * root)[:, None]
    kv, z = tl.zeros([BLOCK, VS], tl.float32), tl.zeros([BLOCK], tl.float32)
    chunks = tl.cdiv(T, CHUNK)
    if KEEP:
        if started > 0:
            kv += load_rows(start_kv + head * F * V, V, f, F, V, VS)
            z += tl.load(start_z + head * F + f, mask=f < F, other=0.0)
        for before in range(0, tl.program_id(2)):
            at = head * tl.num_programs(2) + before
            kv += load_rows(span_kv + at * F * V, V, f, F, V, VS)
            z += tl.load(span_z + at * F + f, mask=f < F, other=0.0)
    for number in range(tl.program_id(2) * span, min((tl.program_id(2) + 1) * span, chunks)):
        n = chunks - 1 - number if BACK else number
        if KEEP:
            at = head * chunks + n
            store_rows(chunk_kv + at * F * V, V, f, F, kv * root[:, None], V, VS)
            tl.store(chunk_z + at * F + f, z * root, mask=f < F)
        for start in range(n * CHUNK, min((n + 1) * CHUNK, T), OTHER):
            t = start + tl.arange(0, OTHER)
            channels = tl.trans(load_rows(x, x_t, t, T, C, CS))
            phi = (dot(pick_i, channels) + one_i) * (dot(pick_j, channels) * root[:, None] + one_j)
            values = load_rows(u, u_t, t, T, V, VS)
            if BACK:
                share = 1 / tl.load(total + head * T + t, mask=t < T, other=1.0)
                count = -share * tl.load(delta + head * T + t, mask=t < T, other=0.0)
                values = (values * share[:, None]).to(values.dtype)
            else:
                count = (t < T).to(tl.float32)
            kv = dot(phi, values, kv)
            z += tl.sum(phi * count[None, :], 1)
    if not KEEP:
        at = head * tl.num_programs(2) + tl.program_id(2)
        store_rows(span_kv + at * F * V, V, f, F, kv, V, VS)
        tl.store(span_z + at * F + f, z, mask=f < F)
    elif tl.program_id(2) == tl.num_programs(2) - 1:
        store_rows(end_kv + head * F * V, V, f, F, kv, V, VS)
        tl.store(end_z + head * F + f, z, mask=f < F)


@triton.jit(do_not_specialize=["T", "started"])
def _outputs(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, y, y_b, y_h, y_t, total, chunk_kv, chunk_z, picks,
    H, T, started, scale, eps,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr, F: tl.constexpr,
    CHUNK: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """OWN queries of a head: keys of their chunk through the weights, chunks before it through the sums."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * OWN
    q += head // H * q_b + head % H * q_h
    k += head // H * k_b + head % H * k_h
    v += head // H * v_b + head % H * v_h
    y += head // H * y_b + head % H * y_h
    n, i = first // CHUNK, first + tl.arange(0, OWN)
    queries = load_rows(q, q_t, i, T, C, CS)
    sums, weight = tl.zeros([OWN, VS], tl.float32), tl.zeros([OWN], tl.float32)
    at = head * tl.cdiv(T, CHUNK) + n
    for tile in range(0, min(n + started, 1) * F, BLOCK):
        f = tile + tl.arange(0, BLOCK)
        left, right, one_left, one_right = load_factors(picks, f, C, CS, F)
        a = dot(queries, tl.trans(left)) + one_left[None, :]
        phi = a * (dot(queries, tl.trans(right)) + one_right[None, :])
        weight += tl.sum(phi * tl.load(chunk_z + at * F + f, mask=f < F, other=0.0)[None, :], 1)
        sums = dot(phi, load_rows(chunk_kv + at * F * V, V, f, F, V, VS), sums)
    for start in range(n * CHUNK, first, OTHER):  # keys that all queries see
        j = start + tl.arange(0, OTHER)
        r = dot(queries, tl.trans(load_rows(k, k_t, j, T, C, CS))) * scale + 1
        w = r * r * 0.5 + 0.5
        weight += tl.sum(w, 1)
        sums = dot(w, load_rows(v, v_t, j, T, V, VS), sums)
    for start in range(first, min(first + OWN, T), OTHER):
        j = start + tl.arange(0, OTHER)
        r = dot(queries, tl.trans(load_rows(k, k_t, j, T, C, CS))) * scale + 1
        w = tl.where(j[None, :] <= i[:, None], r * r * 0.5 + 0.5, 0.0)
        weight += tl.sum(w, 1)
        sums = dot(w, load_rows(v, v_t, j, T, V, VS), sums)
    weight += eps
    store_rows(y, y_t, i, T, sums / weight[:, None], V, VS)
    tl.store(total + head * T + i, weight, mask=i < T)


@triton.jit(do_not_specialize=["started"])
def _step(
    q, q_b, q_h, k, k_b, k_h, v, v_b, v_h, y, y_b, y_h, total, start_kv, start_z, end_kv, end_z,
    H, started, eps,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, F: tl.constexpr,
    OWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One token: OWN columns of the sums read once, added to, asked, and written once."""
    head, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * OWN + tl.arange(0, OWN)
    q += head // H * q_b + head % H * q_h
    k += head // H * k_b + head % H * k_h
    value = tl.load(v + head // H * v_b + head % H * v_h + column, mask=column < V, other=0.0).to(tl.float32)
    sums, weight = tl.zeros([OWN], tl.float32), tl.zeros([BLOCK], tl.float32)
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
    whole = tl.sum(weight, 0) + eps
    at = y + head // H * y_b + head % H * y_h + column
    tl.store(at, (sums / whole).to(y.dtype.element_ty), mask=column < V)
    if tl.program_id(1) == 0:
        tl.store(total + head, whole)


@triton.jit
def _channel(x, channel, C: tl.constexpr):
    return tl.load(x + channel, mask=(channel >= 0) & (channel < C), other=1.0).to(tl.float32)
