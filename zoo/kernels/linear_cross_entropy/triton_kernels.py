"""The kernels of the head's loss in Triton: own rows i of a, passing rows j of b.

P members, N rows of x, V words, D columns; M and K: the rows of a and of b.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

from zoo.kernels.tiles import dot, load_block


@triton.jit
def _scores(a, a_r, i, M, b, b_r, j, K, D: tl.constexpr, BLOCK: tl.constexpr):
    """a b^T, [len(i), len(j)], D columns in blocks of BLOCK."""
    scores = tl.zeros([i.shape[0], j.shape[0]], tl.float32)
    for first in range(0, D, BLOCK):
        mine = load_block(a, a_r, i, M, first, D, BLOCK)
        scores = dot(mine, tl.trans(load_block(b, b_r, j, K, first, D, BLOCK)), scores)
    return scores


@triton.jit
def losses(
    x, x_p, x_n, w, w_p, w_v, target, seen, asked,
    N, V, part,
    D: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Highest and total of OWN rows over `part` words; the score of the right word, if it is among them."""
    member, which = tl.program_id(2).to(tl.int64), tl.program_id(1)
    x, w = x + member * x_p, w + member * w_p
    target, asked = target + member * N, asked + member * N
    i = tl.program_id(0) * OWN + tl.arange(0, OWN)
    right = tl.load(target + i, mask=i < N, other=-1)
    top, total = tl.full([OWN], float("-inf"), tl.float32), tl.zeros([OWN], tl.float32)
    score = tl.zeros([OWN], tl.float32)
    start, stop = which * part, min((which + 1) * part, V)
    for first in range(start, stop, OTHER):
        j = first + tl.arange(0, OTHER)
        scores = _scores(x, x_n, i, N, w, w_v, j, V, D, BLOCK)
        score += tl.sum(tl.where(j[None, :] == right[:, None], scores, 0.0), 1)
        scores = tl.where(j[None, :] < V, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(scores - higher[:, None]), 1)
        top = higher
    at = seen + (member * 2 * tl.num_programs(1) + which) * N + i
    tl.store(at, top, mask=i < N)
    tl.store(at + tl.num_programs(1) * N, total, mask=i < N)
    tl.store(asked + i, score, mask=(i < N) & (right >= start) & (right < stop))


@triton.jit
def gradients(
    a, a_p, a_r, b, b_p, b_r, target, norms, scale, sums,
    M, K, part, columns,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
    D: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """WIDTH columns of the gradient of OWN rows of a, summed over `part` rows of b.

    ROWS: a is x, with target and norms (highest and total) for each own row; else b is x, and its rows have.
    """
    member, which = tl.program_id(2).to(tl.int64), tl.program_id(1)
    a, b = a + member * a_p, b + member * b_p
    N = M if ROWS else K
    target, norms = target + member * N, norms + member * 2 * N
    i, column = tl.program_id(0) // columns * OWN + tl.arange(0, OWN), tl.program_id(0) % columns * WIDTH
    total = tl.zeros([OWN, WIDTH], tl.float32)
    for first in range(which * part, min((which + 1) * part, K), OTHER):
        j = first + tl.arange(0, OTHER)
        row = i if ROWS else j
        right = tl.load(target + row, mask=row < N, other=-1)
        top = tl.load(norms + row, mask=row < N, other=0.0)
        share = 1 / tl.load(norms + N + row, mask=row < N, other=1.0)
        scores = _scores(a, a_r, i, M, b, b_r, j, K, D, BLOCK)
        if ROWS:
            p = tl.exp(scores - top[:, None]) * share[:, None] - tl.where(
                j[None, :] == right[:, None], 1.0, 0.0
            )
        else:
            p = tl.exp(scores - top[None, :]) * share[None, :] - tl.where(
                i[:, None] == right[None, :], 1.0, 0.0
            )
        total = dot(p, load_block(b, b_r, j, K, column, D, WIDTH), total)
    total *= tl.load(scale + member)
    where = column + tl.arange(0, WIDTH)
    at = sums + ((which * tl.num_programs(2) + member) * M + i[:, None]) * D + where[None, :]
    tl.store(at, total.to(sums.dtype.element_ty), mask=(i < M)[:, None] & (where < D)[None, :])
