"""The backward kernels of `triton_channels` that its forward pass does not have."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.gated_linear_attention.triton_channels_forward import across, later_half, of_partner
from zoo.kernels.linear_attention.triton_tiles import load_column
from zoo.kernels.tiles import dot, load_block, store_block


@triton.jit
def _pairs(
    v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t, pairs,
    H, T,
    V: tl.constexpr, VS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """[C C], symmetric: the gradient of the weight with which the later of two tokens reads the earlier."""
    head, n, own = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, CHUNK)
    b, h, chunk, i = head // H, head % H, head * tl.num_programs(1) + n, n * CHUNK + own
    v, dy = v + b * v_b + h * v_h, dy + b * dy_b + h * dy_h
    out = tl.zeros([CHUNK, CHUNK], tl.float32)
    for first in range(0, V, VS):
        values = load_block(v, v_t, i, T, first, V, VS)
        out = dot(load_block(dy, dy_t, i, T, first, V, VS), tl.trans(values), out)
    out = tl.where(own[:, None] >= own[None, :], out, tl.trans(out))
    store_block(pairs + chunk * CHUNK * CHUNK, CHUNK, own, CHUNK, 0, out, CHUNK, CHUNK)


@triton.jit
def crossing(own, level):
    """[C C] of 0 and 1, step m by token: whether m lies between the token and the cut of its block."""
    m, token = own[:, None], own[None, :]
    passed = tl.where(((token >> level) & 1) == 1, m <= token, m > token)
    return ((m >> level) == (token >> level)) & passed


@triton.jit
def summed(flags, x, sum, like):
    """flags x + sum, flags 0 or 1: in bfloat16 where `like` is, else with x in two parts of tf32."""
    if like.dtype == tl.float32:
        coarse = (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
        flags = flags.to(tl.float32)
        sum = tl.dot(flags, x - coarse, sum, input_precision="tf32")
        return tl.dot(flags, coarse, sum, input_precision="tf32")
    else:
        return dot(flags, x.to(like.dtype), sum)


@triton.jit
def _gradients(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t,
    tree, pairs, states, dstates, dq, dq_b, dq_h, dq_t, dk, dk_b, dk_h, dk_t, dg, dg_b, dg_h, dg_t,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """KS channels of dq, dk and dg of one chunk."""
    head, n, first = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * KS
    b, h, chunk, own = head // H, head % H, head * tl.num_programs(1) + n, tl.arange(0, CHUNK)
    i, columns, tree = n * CHUNK + own, first + tl.arange(0, KS), tree + chunk * 2 * CHUNK * K
    queries = load_block(q + b * q_b + h * q_h, q_t, i, T, first, K, KS)
    keys = load_block(k + b * k_b + h * k_h, k_t, i, T, first, K, KS)
    pairs += chunk * CHUNK * CHUNK + own[:, None] * CHUNK + own[None, :]
    itself = tl.load(pairs, mask=own[:, None] == own[None, :], other=0.0)
    itself = tl.sum(itself.to(tl.float32), 1)[:, None]
    to_q, to_k, to_g = itself * keys, itself * queries, tl.zeros([CHUNK, KS], tl.float32)
    until = load_block(tree, K, CHUNK + own, 2 * CHUNK, first, K, KS)
    since = tl.zeros([CHUNK, KS], tl.float32)
    for level in tl.range(0, LEVELS, disable_licm=True):
        later = later_half(own, level)
        fade = tl.exp(tl.where(later, until, since))
        x = tl.where(later, queries, keys).to(tl.float32) * fade
        dx = dot(tl.load(pairs, mask=across(own, level), other=0.0), x.to(queries.dtype))
        to_g = summed(crossing(own, level), x * dx, to_g, queries)
        to_q += tl.where(later, fade * dx, 0.0)
        to_k += tl.where(later, 0.0, fade * dx)
        partner = of_partner(tree, own, level, first, K, KS, CHUNK)
        until += tl.where(later, partner, 0.0)
        since += tl.where(later, 0.0, partner)
    had, left = tl.zeros([CHUNK, KS], tl.float32), tl.zeros([CHUNK, KS], tl.float32)
    kept = tl.zeros([KS], tl.float32)
    v, dy = v + b * v_b + h * v_h, dy + b * dy_b + h * dy_h
    for first_v in range(0, V, VS):
        rows = first_v + tl.arange(0, VS)
        S = load_block(states + chunk * V * K, K, rows, V, first, K, KS)
        dS = load_block(dstates + chunk * V * K, K, rows, V, first, K, KS)
        had = dot(load_block(dy, dy_t, i, T, first_v, V, VS), S, had)
        left = dot(load_block(v, v_t, i, T, first_v, V, VS), dS, left)
        kept += tl.sum(S.to(tl.float32) * dS.to(tl.float32), 0)
    had *= tl.exp(until)
    left *= tl.exp(since)
    m, token = own[:, None], own[None, :]
    to_g = summed(m <= token, queries * had, to_g, queries)
    to_g = summed(m > token, keys * left, to_g, keys)
    to_g += (kept * tl.exp(load_column(tree + K, columns, K, 0.0)))[None, :]
    store_block(dq + b * dq_b + h * dq_h, dq_t, i, T, first, to_q + had, K, KS)
    store_block(dk + b * dk_b + h * dk_h, dk_t, i, T, first, to_k + left, K, KS)
    store_block(dg + b * dg_b + h * dg_h, dg_t, i, T, first, to_g, K, KS)
