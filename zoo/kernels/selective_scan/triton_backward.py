"""The backward kernel of the selective scan; `triton.py` says what it computes."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportOperatorIssue=false

import triton
import triton.language as tl

from zoo.kernels.selective_scan.triton_forward import LOG2_E


@triton.jit
def scan_backward(
    x, x_b, x_t, dt, dt_b, dt_t, B, B_b, B_t, C, C_b, C_t, dy, dy_b, dy_t,
    A, first, saved, dlast, dx, ddt, dA, dB, dC, dfirst, each, T, D,
    N: tl.constexpr, NS: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Go back through BLOCK channels of one sequence, the last chunk first; dA, dB, dC are its shares."""
    blocks, n = tl.cdiv(D, BLOCK), tl.arange(0, NS)
    b, d = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    has, at = (d < D)[:, None] & (n < N)[None, :], d[:, None] * N + n[None, :]
    x, dt, B, C, dy = x + b * x_b + d, dt + b * dt_b + d, B + b * B_b + n, C + b * C_b + n, dy + b * dy_b + d
    dx, ddt = dx + b * T * D + d, ddt + b * T * D + d
    share = tl.program_id(0).to(tl.int64) * T * N + n
    dB, dC = dB + share, dC + share
    A = tl.load(A + b // each * D * N + at, has, 0.0).to(tl.float32) * LOG2_E
    G = tl.load(dlast + b * D * N + at, has, 0.0)
    sums = tl.zeros([BLOCK, NS], tl.float32)
    chunks = (T - 1) // CHUNK
    first, saved = first + b * D * N + at, saved + (b * chunks + chunks - 1) * D * N + at
    for back in range(0, chunks + 1):
        chunk = chunks - back
        h = tl.load(first if chunk == 0 else saved, has, 0.0)
        saved -= D * N
        before, upstream = (), ()  # the state before each step; what comes from y
        for i in tl.static_range(CHUNK):
            t = chunk * CHUNK + i
            in_d, in_n = d < tl.where(t < T, D, 0), n < tl.where(t < T, N, 0)
            dt_i = tl.load(dt + t * dt_t, in_d, 0.0).to(tl.float32)
            u_i = tl.load(x + t * x_t, in_d, 0.0).to(tl.float32) * dt_i
            B_i = tl.load(B + t * B_t, in_n, 0.0).to(tl.float32)
            dy_i = tl.load(dy + t * dy_t, in_d, 0.0).to(tl.float32)
            upstream += ((dy_i, tl.load(C + t * C_t, in_n, 0.0).to(tl.float32)),)
            before += (h,)
            h = tl.exp2(dt_i[:, None] * A) * h + u_i[:, None] * B_i[None, :]
        for i in tl.static_range(CHUNK - 1, -1, -1):
            t = chunk * CHUNK + i
            in_d, in_n = d < tl.where(t < T, D, 0), n < tl.where(t < T, N, 0)
            x_i = tl.load(x + t * x_t, in_d, 0.0).to(tl.float32)
            dt_i = tl.load(dt + t * dt_t, in_d, 0.0).to(tl.float32)
            B_i = tl.load(B + t * B_t, in_n, 0.0).to(tl.float32)
            dy_i, C_i = upstream[i]
            tl.store(dC + t * N, tl.sum(h * dy_i[:, None], 0), in_n)
            G += dy_i[:, None] * C_i[None, :]
            tl.store(dB + t * N, tl.sum(G * (x_i * dt_i)[:, None], 0), in_n)
            du = tl.sum(G * B_i[None, :], 1)
            tl.store(dx + t * D, (dt_i * du).to(dx.dtype.element_ty), in_d)
            G *= tl.exp2(dt_i[:, None] * A)
            h = before[i]
            E = G * h
            sums += E * dt_i[:, None]
            through = x_i * du + tl.sum(E * A, 1) / LOG2_E
            tl.store(ddt + t * D, through.to(ddt.dtype.element_ty), in_d)
    tl.store(dA + b * D * N + at, sums, has)
    tl.store(dfirst + b * D * N + at, G, has)
