"""The forward kernel of the selective scan; `triton.py` says what it computes."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportOperatorIssue=false

import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def load_chunk(
    x, x_t, dt, dt_t, B, B_t, C, C_t, d, n, start, T, D, N: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    """Load (x, dt, B, C) of each step from `start` on; zeros past the end, which change nothing."""
    steps = ()
    for i in tl.static_range(CHUNK):
        t = start + i
        in_d, in_n = d < tl.where(t < T, D, 0), n < tl.where(t < T, N, 0)
        x_i = tl.load(x + t * x_t, in_d, 0.0).to(tl.float32)
        dt_i = tl.load(dt + t * dt_t, in_d, 0.0).to(tl.float32)
        B_i = tl.load(B + t * B_t, in_n, 0.0).to(tl.float32)
        steps += ((x_i, dt_i, B_i, tl.load(C + t * C_t, in_n, 0.0).to(tl.float32)),)
    return steps


@triton.jit
def scan_forward(
    x, x_b, x_t, dt, dt_b, dt_t, B, B_b, B_t, C, C_b, C_t,
    A, first, y, last, saved, each, T, D,
    N: tl.constexpr, NS: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Scan BLOCK channels of one sequence.  Loads are a chunk ahead: no step waits for memory."""
    blocks, n = tl.cdiv(D, BLOCK), tl.arange(0, NS)
    b, d = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    has, at = (d < D)[:, None] & (n < N)[None, :], d[:, None] * N + n[None, :]
    x, dt, B, C, y = x + b * x_b + d, dt + b * dt_b + d, B + b * B_b + n, C + b * C_b + n, y + b * T * D + d
    A = tl.load(A + b // each * D * N + at, has, 0.0).to(tl.float32) * LOG2_E
    h = tl.load(first + b * D * N + at, has, 0.0)
    saved += b * ((T - 1) // CHUNK) * D * N + at
    steps = load_chunk(x, x_t, dt, dt_t, B, B_t, C, C_t, d, n, 0, T, D, N, CHUNK)
    for start in range(0, T, CHUNK):
        ahead = load_chunk(x, x_t, dt, dt_t, B, B_t, C, C_t, d, n, start + CHUNK, T, D, N, CHUNK)
        for i in tl.static_range(CHUNK):
            x_i, dt_i, B_i, C_i = steps[i]
            h = tl.exp2(dt_i[:, None] * A) * h + (dt_i * x_i)[:, None] * B_i[None, :]
            y_i = tl.sum(h * C_i[None, :], 1).to(y.dtype.element_ty)
            tl.store(y + (start + i) * D, y_i, d < tl.where(start + i < T, D, 0))
        steps = ahead
        if start + CHUNK < T:
            tl.store(saved, h, has)
            saved += D * N
    tl.store(last + b * D * N + at, h, has)
