"""The kernels of the delta rule's forward pass: see triton.py, where the formulas stand.

EACH writes for each query; i the rows of a chunk, j its columns.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.tiles import dot

SMALL = tl.constexpr(16)  # rows of the diagonal blocks that are inverted row by row
LEAST = tl.constexpr(-128.0)  # exp of it is 0 in float32: whatever decays more is as good as gone


@triton.jit
def load_tile(at, stride, rows, length, columns, width):
    """Of a matrix [length, width], the last dimension contiguous; zeros elsewhere."""
    mask = (rows < length)[:, None] & (columns < width)[None, :]
    return tl.load(at + rows[:, None] * stride + columns[None, :], mask=mask, other=0.0)


@triton.jit
def store_tile(at, stride, rows, length, columns, width, x):
    mask = (rows < length)[:, None] & (columns < width)[None, :]
    tl.store(at + rows[:, None] * stride + columns[None, :], x.to(at.dtype.element_ty), mask=mask)


@triton.jit
def load_each(at, stride, rows, length):
    """A number for each row, in float32; 0 where there is no such row."""
    return tl.load(at + rows * stride, mask=rows < length, other=0.0).to(tl.float32)


@triton.jit
def running(logs, CHUNK: tl.constexpr):
    """The sum of log_decay up to each row of a chunk, in float64: differences of sums lose nothing.

    No log_decay counts as less than what leaves nothing in float32: the difference of -inf and -inf is NaN.
    """
    logs = tl.maximum(logs, LEAST, propagate_nan=tl.PropagateNan.ALL).to(tl.float64)
    i, j = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    return tl.sum(tl.where(i >= j, logs[None, :], 0.0), 1)


@triton.jit
def load_sums(sums, head, rows, length):
    """Rows after the end forget nothing more."""
    return tl.load(sums + head * length + tl.minimum(rows, length - 1))


@triton.jit
def queries_of(rows, length, EACH: tl.constexpr):
    """The query that reads after each write; `length`, which no query has, where none does."""
    return rows if EACH == 1 else tl.where(rows % EACH == EACH - 1, rows // EACH, length)


@triton.jit
def left(sums, CHUNK: tl.constexpr):
    """What is left after i of what was there after j: exp(sums_i - sums_j), 0 for i < j."""
    i, j = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    return tl.exp(tl.where(i >= j, (sums[:, None] - sums[None, :]).to(tl.float32), -float("inf")))


@triton.jit
def left_transposed(sums, CHUNK: tl.constexpr):
    """`left` with its rows for columns: made anew, since a matrix is best not transposed in registers."""
    i, j = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    return tl.exp(tl.where(i <= j, (sums[None, :] - sums[:, None]).to(tl.float32), -float("inf")))


@triton.jit
def to_end(sums, head, rows, length):
    """What is left at the end of a chunk of what was there at its start; of what was there after each row."""
    whole = tl.load(sums + head * length + tl.minimum(tl.max(rows, 0), length - 1))
    return tl.exp(whole.to(tl.float32)), tl.exp((whole - load_sums(sums, head, rows, length)).to(tl.float32))


@triton.jit
def inverse(A, CHUNK: tl.constexpr):
    """(I + A)^-1 of a strictly lower triangular A.

    The diagonal blocks row after row, then twice as large ones from pairs.  Powers of A, which would need
    products alone, grow beyond what float32 can subtract where keys repeat.
    """
    COUNT: tl.constexpr = CHUNK // SMALL
    block, small = tl.arange(0, COUNT), tl.arange(0, SMALL)
    diagonal = block[:, None, None, None] == block[None, None, :, None]
    parts = tl.sum(tl.where(diagonal, tl.reshape(A, [COUNT, SMALL, COUNT, SMALL]), 0.0), 2)
    found = parts * 0.0 + tl.where(small[:, None] == small[None, :], 1.0, 0.0)[None, :, :]
    for row in range(1, SMALL):
        here = (small == row)[None, :, None]
        weights = tl.sum(tl.where(here, parts, 0.0), 1)
        found -= tl.where(here, tl.sum(weights[:, :, None] * found, 1)[:, None, :], 0.0)
    for doublings in tl.static_range(COUNT // 2):  # a chunk is of 32 or 64
        found = doubled(A, found, SMALL * 2**doublings, CHUNK)
    return tl.reshape(found, [CHUNK, CHUNK])


@triton.jit
def doubled(A, found, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """From the inverses of the diagonal blocks of SIZE [CHUNK / SIZE, SIZE, SIZE] those of twice the size.

    [[P, 0], [C, Q]]^-1 = [[P^-1, 0], [-Q^-1 C P^-1, Q^-1]].  Products of these blocks alone: with zeros
    around them, as matrices of a whole chunk, they spilt registers on sm_80.
    """
    PAIRS: tl.constexpr = CHUNK // (2 * SIZE)
    pair, half = tl.arange(0, PAIRS), tl.arange(0, 2)
    same = pair[:, None, None, None, None, None] == pair[None, None, None, :, None, None]
    corner = same & (half[None, :, None, None, None, None] > half[None, None, None, None, :, None])
    C = tl.where(corner, tl.reshape(A, [PAIRS, 2, SIZE, PAIRS, 2, SIZE]), 0.0)
    C = tl.sum(tl.sum(tl.sum(C, 4), 3), 1)
    second, pairs = half[None, :, None, None] == 1, tl.reshape(found, [PAIRS, 2, SIZE, SIZE])
    P, Q = tl.sum(tl.where(second, 0.0, pairs), 1), tl.sum(tl.where(second, pairs, 0.0), 1)
    below = -dot(Q, dot(C, P))
    before, after = tl.where(second, below[:, None, :, :], pairs), tl.where(second, pairs, 0.0)
    whole = tl.where(half[None, None, None, :, None] == 1, after[:, :, :, None, :], before[:, :, :, None, :])
    return tl.reshape(whole, [PAIRS, 2 * SIZE, 2 * SIZE])


@triton.jit
def _invert(
    k, k_b, k_h, k_t, beta, beta_b, beta_h, beta_t, logs, logs_b, logs_h, logs_t, inverses, sums,
    H, T, K, KEYS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The inverse of one chunk; KEYS channels at once."""
    head, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, h = head // H, head % H
    k, beta = k + b * k_b + h * k_h, beta + b * beta_b + h * beta_h
    i = chunk * CHUNK + tl.arange(0, CHUNK)
    overlaps = tl.zeros([CHUNK, CHUNK], tl.float32)
    for start in range(0, K, KEYS):
        keys = load_tile(k, k_t, i, T, start + tl.arange(0, KEYS), K)
        overlaps = dot(keys, tl.trans(keys), overlaps)
    overlaps *= load_each(beta, beta_t, i, T)[:, None]
    if logs is not None:
        found = running(load_each(logs + b * logs_b + h * logs_h, logs_t, i, T), CHUNK)
        tl.store(sums + head * T + i, found, mask=i < T)
        overlaps *= left(found, CHUNK)
    earlier = tl.arange(0, CHUNK)[:, None] > tl.arange(0, CHUNK)[None, :]
    found = inverse(tl.where(earlier, overlaps, 0.0), CHUNK)
    columns = tl.arange(0, CHUNK)
    store_tile(inverses + head * T * CHUNK, CHUNK, i, T, columns, CHUNK, found)


@triton.jit
def _walk(
    k, k_b, k_h, k_t, v, v_b, v_h, v_t, beta, beta_b, beta_h, beta_t, sums,
    state, inverses, starts, written, last,
    H, T,
    K: tl.constexpr, KEYS: tl.constexpr, V: tl.constexpr, VALUES: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """What is written, and the state that each chunk starts from: VALUES of its columns, chunk after chunk.

    The state is held as one matrix or two, KEYS of its rows each; keys are read twice, not kept.
    """
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    k, v, beta = k + b * k_b + h * k_h, v + b * v_b + h * v_h, beta + b * beta_b + h * beta_h
    inverses, written = inverses + head * T * CHUNK, written + head * T * V
    columns, own = tl.program_id(1) * VALUES + tl.arange(0, VALUES), tl.arange(0, CHUNK)
    upper, lower = tl.arange(0, KEYS), KEYS + tl.arange(0, KEYS)
    S, S2 = tl.zeros([KEYS, VALUES], tl.float32), tl.zeros([KEYS, VALUES], tl.float32)
    if state is not None:
        S += load_tile(state + head * K * V, V, upper, K, columns, V).to(tl.float32)
        if K > KEYS:
            S2 += load_tile(state + head * K * V, V, lower, K, columns, V).to(tl.float32)
    for chunk in range(0, tl.cdiv(T, CHUNK)):
        i, start = chunk * CHUNK + own, starts + (head * tl.cdiv(T, CHUNK) + chunk) * K * V
        store_tile(start, V, upper, K, columns, V, S)
        keys = load_tile(k, k_t, i, T, upper, K)
        answers = dot(keys, S.to(keys.dtype))
        if K > KEYS:
            store_tile(start, V, lower, K, columns, V, S2)
            answers = dot(load_tile(k, k_t, i, T, lower, K), S2.to(keys.dtype), answers)
        if sums is not None:
            answers *= tl.exp(load_sums(sums, head, i, T).to(tl.float32))[:, None]
        errors = load_tile(v, v_t, i, T, columns, V).to(tl.float32) - answers
        errors *= load_each(beta, beta_t, i, T)[:, None]
        found = dot(load_tile(inverses, CHUNK, i, T, own, CHUNK), errors)
        store_tile(written, V, i, T, columns, V, found)
        if sums is not None:
            whole, rest = to_end(sums, head, i, T)
            found *= rest[:, None]
            S *= whole
            S2 *= whole
        keys = load_tile(k, k_t, i, T, upper, K)
        S = dot(tl.trans(keys), found.to(keys.dtype), S)
        if K > KEYS:
            S2 = dot(tl.trans(load_tile(k, k_t, i, T, lower, K)), found.to(keys.dtype), S2)
    store_tile(last + head * K * V, V, upper, K, columns, V, S)
    if K > KEYS:
        store_tile(last + head * K * V, V, lower, K, columns, V, S2)


@triton.jit
def _read(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, y, y_b, y_h, y_t, sums, starts, written,
    H, T, K, V, KEYS: tl.constexpr, VALUES: tl.constexpr, CHUNK: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """The answers of one chunk, VALUES columns of them."""
    head, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, h = head // H, head % H
    q, k, y = q + b * q_b + h * q_h, k + b * k_b + h * k_h, y + b * y_b + h * y_h
    starts, written = starts + (head * tl.num_programs(1) + chunk) * K * V, written + head * T * V
    i, columns = chunk * CHUNK + tl.arange(0, CHUNK), tl.program_id(2) * VALUES + tl.arange(0, VALUES)
    reading = queries_of(i, T // EACH, EACH)
    weights, answers = tl.zeros([CHUNK, CHUNK], tl.float32), tl.zeros([CHUNK, VALUES], tl.float32)
    for start in range(0, K, KEYS):
        channels = start + tl.arange(0, KEYS)
        queries = load_tile(q, q_t, reading, T // EACH, channels, K)
        weights = dot(queries, tl.trans(load_tile(k, k_t, i, T, channels, K)), weights)
        answers = dot(queries, load_tile(starts, V, channels, K, columns, V), answers)
    if sums is not None:
        until = load_sums(sums, head, i, T)
        weights *= left(until, CHUNK)
        answers *= tl.exp(until.to(tl.float32))[:, None]
    else:
        weights = tl.where(tl.arange(0, CHUNK)[:, None] >= tl.arange(0, CHUNK)[None, :], weights, 0.0)
    values = load_tile(written, V, i, T, columns, V)
    answers = dot(weights.to(values.dtype), values, answers)
    store_tile(y, y_t, reading, T // EACH, columns, V, answers)
