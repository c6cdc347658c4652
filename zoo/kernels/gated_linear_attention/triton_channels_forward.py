"""What the kernels of both passes of `triton_channels` share, and the forward ones.

States are [V K], transposed: as the left side of a product they then have the 64 rows that tensor cores ask
for, however few key channels there are.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.linear_attention.triton_tiles import load_column
from zoo.kernels.tiles import dot, load_block, store_block


@triton.jit
def later_half(own, level):
    """[C 1]: whether a token stands after the cut of its block of 2 ** (level + 1) tokens."""
    return (((own >> level) & 1) == 1)[:, None]


@triton.jit
def across(own, level):
    """[C C]: whether two tokens stand on the two sides of one cut of this level."""
    return ((own[:, None] ^ own[None, :]) >> level) == 1


@triton.jit
def of_partner(tree, own, level, first, K: tl.constexpr, KS: tl.constexpr, CHUNK: tl.constexpr):
    """[C KS]: the sum over the other half of the block that a token's half is one of."""
    return load_block(tree, K, (CHUNK >> level) + ((own >> level) ^ 1), 2 * CHUNK, first, K, KS)


@triton.jit
def _sums(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, g, g_b, g_h, g_t, tree, starts, ends,
    H, T,
    K: tl.constexpr, KS: tl.constexpr, CHUNK: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """KS channels of one chunk: its tree of sums, its queries faded from its start, its keys to its end."""
    head, n, first = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * KS
    b, h, own = head // H, head % H, tl.arange(0, CHUNK)
    i, tree = n * CHUNK + own, tree + (head * tl.num_programs(1) + n) * 2 * CHUNK * K
    g = g + b * g_b + h * g_h
    steps = load_block(g, g_t, i, T, first, K, KS).to(tl.float32)
    after = load_block(g, g_t, i + 1, T, first, K, KS).to(tl.float32)
    after = tl.where((own + 1 < CHUNK)[:, None], after, 0.0)
    queries = load_block(q + b * q_b + h * q_h, q_t, i, T, first, K, KS).to(tl.float32)
    keys = load_block(k + b * k_b + h * k_h, k_t, i, T, first, K, KS).to(tl.float32)
    store_block(starts + head * T * K, K, i, T, first, queries * tl.exp(tl.cumsum(steps, 0)), K, KS)
    to_end = tl.cumsum(after, 0, reverse=True)
    store_block(ends + head * T * K, K, i, T, first, keys * tl.exp(to_end), K, KS)
    store_block(tree, K, CHUNK + own, 2 * CHUNK, first, steps, K, KS)
    for level in tl.static_range(1, LEVELS + 1):
        steps = tl.sum(tl.reshape(steps, [CHUNK >> level, 2, KS]), 1)
        node = (CHUNK >> level) + tl.arange(0, CHUNK >> level)
        store_block(tree, K, node, 2 * CHUNK, first, steps, K, KS)


@triton.jit
def _walk(
    x, y, y_b, y_h, y_t, tree, start, states, end,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """One program: a block [VS KS] of a head's state, or with BACK of its gradient, from chunk to chunk.

    In each it decays, and y^T x is added: values and faded keys, or upstream and faded queries.
    """
    head, first_k, first_v = tl.program_id(0).to(tl.int64), tl.program_id(1) * KS, tl.program_id(2) * VS
    chunks, y = tl.cdiv(T, CHUNK), y + (head // H) * y_b + (head % H) * y_h
    rows, columns = first_v + tl.arange(0, VS), first_k + tl.arange(0, KS)
    S = tl.zeros([VS, KS], tl.float32)
    if start is not None:
        S += tl.trans(load_block(start + head * K * V, V, columns, K, first_v, V, VS).to(tl.float32))
    for step in range(0, chunks):
        n = chunks - 1 - step if BACK else step
        chunk, i = head * chunks + n, n * CHUNK + tl.arange(0, CHUNK)
        store_block(states + chunk * V * K, K, rows, V, first_k, S, K, KS)
        S *= tl.exp(load_column(tree + (chunk * 2 * CHUNK + 1) * K, columns, K, 0.0))[None, :]
        right = load_block(x + head * T * K, K, i, T, first_k, K, KS)
        S = dot(tl.trans(load_block(y, y_t, i, T, first_v, V, VS)), right, S)
    store_block(end + head * K * V, V, columns, K, first_v, tl.trans(S), V, VS)


@triton.jit
def _weights(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, tree, weights,
    H, T,
    K: tl.constexpr, KS: tl.constexpr, CHUNK: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """[C C]: by how much each token of one chunk reads each earlier one, and itself."""
    head, n, own = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, CHUNK)
    b, h, chunk, i = head // H, head % H, head * tl.num_programs(1) + n, n * CHUNK + own
    q, k, tree = q + b * q_b + h * q_h, k + b * k_b + h * k_h, tree + chunk * 2 * CHUNK * K
    out, itself = tl.zeros([CHUNK, CHUNK], tl.float32), tl.zeros([CHUNK], tl.float32)
    for first in range(0, K, KS):
        queries, keys = load_block(q, q_t, i, T, first, K, KS), load_block(k, k_t, i, T, first, K, KS)
        itself += tl.sum(queries.to(tl.float32) * keys.to(tl.float32), 1)
        until = load_block(tree, K, CHUNK + own, 2 * CHUNK, first, K, KS)
        since = tl.zeros([CHUNK, KS], tl.float32)
        for level in range(0, LEVELS):
            later = later_half(own, level)
            x = tl.where(later, queries, keys).to(tl.float32) * tl.exp(tl.where(later, until, since))
            x = x.to(queries.dtype)
            out += tl.where(across(own, level), dot(x, tl.trans(x)), 0.0)
            partner = of_partner(tree, own, level, first, K, KS, CHUNK)
            until += tl.where(later, partner, 0.0)
            since += tl.where(later, 0.0, partner)
    out = tl.where(own[:, None] == own[None, :], itself[:, None], out)
    out = tl.where(own[:, None] >= own[None, :], out, 0.0)
    store_block(weights + chunk * CHUNK * CHUNK, CHUNK, own, CHUNK, 0, out, CHUNK, CHUNK)


@triton.jit
def _outputs(
    x, weights, v, v_b, v_h, v_t, states, y, y_b, y_h, y_t,
    H, T,
    K: tl.constexpr, V: tl.constexpr, KS: tl.constexpr, VS: tl.constexpr,
    CHUNK: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """VS channels of the outputs of one chunk: x S and the weighted v.  With BACK, of the gradient of v."""
    head, n, first_v = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * VS
    b, h, chunk, own = head // H, head % H, head * tl.num_programs(1) + n, tl.arange(0, CHUNK)
    i, rows = n * CHUNK + own, first_v + tl.arange(0, VS)
    read = load_block(weights + chunk * CHUNK * CHUNK, CHUNK, own, CHUNK, 0, CHUNK, CHUNK)
    read = tl.trans(read) if BACK else read
    out = dot(read, load_block(v + b * v_b + h * v_h, v_t, i, T, first_v, V, VS))
    for first in range(0, K, KS):
        S = load_block(states + chunk * V * K, K, rows, V, first, K, KS)
        out = dot(load_block(x + head * T * K, K, i, T, first, K, KS), tl.trans(S), out)
    store_block(y + b * y_b + h * y_h, y_t, i, T, first_v, out, V, VS)
