"""A decoding step over a window in Triton: its keys and values are read once, and written once, a token on.

One program has up to four query heads that share a key/value head.  BLOCK of the kept keys pass by at a time,
and are written to where they stand in the next state.  Each row of the block has for each head a running
maximum m, the sum of 2^(logit - m) and the sum of values under these weights, over what has passed in this
row; the rows meet at the end, so that warps never wait for each other before.  The token itself is the first
of row 0.  Of more heads than four, each four read the keys again, out of the cache, and the first four write.

Floor: the bytes of what is past, before and after.  At B = 128, G = 16, C = 64 and a window of 128 in
bfloat16 they are 2 * 67 MB, 31 us on an H200.  A program goes through the whole window: few sequences with a
long one leave most of a card idle.

Gradients are made by torch, from the definition: what decodes has no use for them.  With k the keys kept and
the token's own, those of the next state are the last N of k, so that dk gets its gradient too.

B batch, H query heads, G key/value heads, S tokens past before and N after, C channels.  Tensors come with
the strides they have; the last must be 1.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportOperatorIssue=false

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.folding import Folding
from zoo.kernels.common.launching import launch_options, strided, unfit_here
from zoo.kernels.common.tiles import load_rows, power_of_two, rows_last, store_rows

DTYPES = (torch.float32, torch.bfloat16)
CHANNELS = 256  # at most
TOGETHER = (4, 3, 2, 1)  # query heads of a program: more would spill registers
TILE = 2048  # scalars of a block of past keys
LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


class Blocks(NamedTuple):
    """The cut of the window: kept tokens that pass by at once."""

    rows: int
    num_warps: int
    num_stages: int


def blocks(channels: int) -> Blocks:
    """Return a static cut, so that a captured graph and a second run do the same.

    `python -m tests.kernels.compiled` says what each costs in registers; none may spill.
    """
    tile = TILE if channels % 16 == 0 else TILE // 2  # else numbers are loaded one by one, of more rows
    return Blocks(tile // power_of_two(channels), 4, 1)


def window_decode_triton(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_k: Tensor | None,
    past_v: Tensor | None,
    window: int,
    slopes: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend from one token; what is kept is a copy."""
    past_k, past_v = (x[:, :, :0] if past is None else past for x, past in ((k, past_k), (v, past_v)))
    slopes = None if slopes is None else slopes.float().expand(q.shape[0], -1)
    return _Decode.apply(q, k, v, past_k, past_v, window, slopes)


def unfit(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_k: Tensor | None,
    past_v: Tensor | None,
    window: int,
    slopes: Tensor | None = None,
) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if not q.shape[2] == k.shape[2] == v.shape[2] == 1:
        return f"one token at a time, and there are {q.shape[2]}"
    if k.shape != v.shape or q.shape[-1] != k.shape[-1]:
        return "q, k and v must have the same number of channels, k and v the same shape"
    if q.shape[1] % k.shape[1]:
        return f"num_heads (={q.shape[1]}) must be a multiple of num_kv_heads (={k.shape[1]})"
    if q.shape[-1] > CHANNELS:
        return f"head_dim (={q.shape[-1]}) must be at most {CHANNELS}"
    given = [x for x in (q, k, v, past_k, past_v) if x is not None]
    if len({x.dtype for x in given}) > 1 or q.dtype not in DTYPES:
        dtypes = ", ".join(str(x.dtype) for x in given)
        return f"q, k, v and what is past must all be float32 or bfloat16, and are {dtypes}"
    return _unfit_past(k, past_k, past_v, window) or unfit_here(q)


def _unfit_past(k: Tensor, past_k: Tensor | None, past_v: Tensor | None, window: int) -> str | None:
    if past_k is None or past_v is None:
        return None if past_k is past_v else "past_k and past_v come together"
    if past_k.shape != past_v.shape or past_k[:, :, :0].shape != k[:, :, :0].shape:
        return "past_k and past_v must have the same shape, k's but for the number of tokens"
    if past_k.shape[2] >= window:
        return f"at most window - 1 (={window - 1}) tokens are kept, and there are {past_k.shape[2]}"
    return None


class _Decode(Folding):
    """The step.  slopes: [B H], of each sequence its own, since stacked members have their own."""

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor, window: int, slopes: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Launch the kernel."""
        q, k, v, past_k, past_v = (rows_last(x) for x in (q, k, v, past_k, past_v))
        (batch, groups, before, channels), shared = past_k.shape, q.shape[1] // k.shape[1]
        after, heads = min(before + 1, window - 1), next(size for size in TOGETHER if shared % size == 0)
        y, next_k, next_v = (
            x.new_empty(*x.shape[:2], n, channels) for x, n in ((q, 1), (k, after), (v, after))
        )
        cut = blocks(channels)
        _decode[(batch * groups * shared // heads,)](
            *strided(q, k, v, dims=2),
            *(*strided(past_k, past_v), y, next_k, next_v),
            *(y if slopes is None else slopes.contiguous(), groups, shared // heads, before, after),
            channels**-0.5,
            **{"R": heads, "C": channels, "CS": power_of_two(channels), "BLOCK": cut.rows},
            BIASED=slopes is not None,
            **launch_options(cut.num_warps, cut.num_stages),
        )
        return y, next_k, next_v

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        del output
        ctx.save_for_backward(*inputs[:5], inputs[6])

    @staticmethod
    def backward(  # pyright: ignore
        ctx: Any, dy: Tensor, dnext_k: Tensor, dnext_v: Tensor
    ) -> tuple[Tensor | None, ...]:
        """Differentiate the definition, in torch."""
        q, k, v, past_k, past_v, slopes = ctx.saved_tensors
        groups, scale = k.shape[1], q.shape[-1] ** -0.5
        k, v = torch.cat([past_k, k], 2).float(), torch.cat([past_v, v], 2).float()
        q, dy = (_by_group(x, groups).float() for x in (q, dy))
        logits, age = (q @ k.mT) * scale, torch.arange(k.shape[2] - 1, -1, -1, device=k.device)
        if slopes is not None:
            logits = logits - slopes.unflatten(1, (groups, -1))[..., None] * age
        p, dp = logits.softmax(-1), dy @ v.mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        gone = k.shape[2] - dnext_k.shape[2]
        dk = ds.mT @ q * scale + F.pad(dnext_k, (0, 0, gone, 0))
        dv = p.mT @ dy + F.pad(dnext_v, (0, 0, gone, 0))
        dq, dslopes = ds @ k * scale, None if slopes is None else -(ds * age).sum(-1).flatten(1)
        new, past = ([x[:, :, -1:] for x in (dk, dv)], [x[:, :, :-1] for x in (dk, dv)])
        return dq.flatten(1, 2)[:, :, None], *new, *past, None, dslopes


def _by_group(x: Float[Tensor, "B H 1 C"], groups: int) -> Float[Tensor, "B G R C"]:
    return x[:, :, 0].unflatten(1, (groups, -1))


@triton.jit(do_not_specialize=["S", "N"])  # else the steps that fill a window would compile anew
def _decode(
    q, q_b, q_h, k, k_b, k_g, v, v_b, v_g, past_k, kk_b, kk_g, kk_s, past_v, kv_b, kv_g, kv_s,
    y, next_k, next_v, slopes, groups, each, S, N, scale,
    R: tl.constexpr, C: tl.constexpr, CS: tl.constexpr, BLOCK: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """Decode R query heads; `each` programs in a row share a key/value head, which the first writes."""
    shared, part, c = tl.program_id(0).to(tl.int64) // each, tl.program_id(0) % each, tl.arange(0, CS)
    b, g, row = shared // groups, shared % groups, tl.program_id(0).to(tl.int64) * R
    q, k, v = q + b * q_b + (g * each + part) * R * q_h + c, k + b * k_b + g * k_g, v + b * v_b + g * v_g
    past_k, past_v = past_k + b * kk_b + g * kk_g, past_v + b * kv_b + g * kv_g
    next_k, next_v = next_k + shared * N * C, next_v + shared * N * C
    gone, stay = S + 1 - N, tl.where(part == 0, N - 1, 0)  # stay: rows that this program writes
    key, value = tl.load(k + c, c < C, 0.0), tl.load(v + c, c < C, 0.0)
    last = c < tl.where(part < tl.minimum(N, 1), C, 0)
    tl.store(next_k + (N - 1) * C + c, key, last)
    tl.store(next_v + (N - 1) * C + c, value, last)
    i, queries, sums = tl.arange(0, BLOCK), (), ()  # of every head m, the weights and the values, row by row
    for r in tl.static_range(R):
        query = tl.load(q + r * q_h, c < C, 0.0).to(tl.float32) * (scale * LOG2_E)
        first = tl.where(i == 0, 1.0, 0.0)
        m = tl.zeros([BLOCK], tl.float32) + tl.sum(query * key.to(tl.float32), 0)
        queries += (query,)
        sums += ((m, first, first[:, None] * value.to(tl.float32)[None, :]),)
    for start in range(0, S, BLOCK):
        j = start + i
        keys, values = load_rows(past_k, kk_s, j, S, C, CS), load_rows(past_v, kv_s, j, S, C, CS)
        to = tl.where(j < gone, N, j - gone)  # N: nowhere
        store_rows(next_k, C, to, stay, keys, C, CS)
        store_rows(next_v, C, to, stay, values, C, CS)
        keys, values = keys.to(tl.float32), values.to(tl.float32)
        added = ()
        for r in tl.static_range(R):
            m, weight, total = sums[r]
            logits = tl.sum(keys * queries[r][None, :], 1)
            if BIASED:
                logits -= tl.load(slopes + row + r) * LOG2_E * (S - j)
            logits = tl.where(j < S, logits, float("-inf"))
            peak = tl.maximum(m, logits)
            p, shrink = tl.exp2(logits - peak), tl.exp2(m - peak)
            added += ((peak, weight * shrink + p, total * shrink[:, None] + p[:, None] * values),)
        sums = added
    for r in tl.static_range(R):
        m, weight, total = sums[r]
        share = tl.exp2(m - tl.max(m, 0))
        answer = tl.sum(total * share[:, None], 0) / tl.sum(weight * share, 0)
        tl.store(y + (row + r) * C + c, answer.to(y.dtype.element_ty), c < C)
