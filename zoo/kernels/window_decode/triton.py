"""A decoding step over a window in Triton: the window's keys and values pass once through the registers.

One program has up to four query heads that share a key/value head, and for each of them a running maximum m,
the sum of 2^(logit - m) and the sum of values under these weights; BLOCK keys pass by at a time.  Of more
heads than four, each four read the keys again, out of the cache.

Floor: the bytes of the keys and values in view.  At B = 128, G = 16, C = 64 and a window of 128 in bfloat16
they are 67 MB, 16 us on an H200.  A program goes through the whole window: few sequences with a long one
leave most of a card idle.

Gradients are made by torch, from the definition: what decodes has no use for them.

B batch, H query heads, G key/value heads, S keys, C channels.  Tensors come with the strides they have; the
last must be 1.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportOperatorIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.folding import Folding
from zoo.kernels.launching import launch_options, unfit_here
from zoo.kernels.tiles import load_rows, power_of_two, rows_last

PROVEN: str | None = None  # no card has run the gpu tests yet
WITHOUT_PRODUCTS = frozenset({"decode"})  # one query makes no matrix
DTYPES = (torch.float32, torch.bfloat16)
CHANNELS = 256  # at most
TOGETHER = (4, 3, 2, 1)  # query heads of a program: more would spill registers
TILE = 2048  # scalars of a block of keys
LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


def window_decode_triton(
    q: Float[Tensor, "B H 1 C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    window: int | None = None,
    slopes: Float[Tensor, "H"] | None = None,
) -> Float[Tensor, "B H 1 C"]:
    """What `attention_reference` says of one query."""
    first = 0 if window is None else max(0, k.shape[2] - window)
    slopes = None if slopes is None else slopes.float().expand(q.shape[0], -1)
    return _Decode.apply(q, k[:, :, first:], v[:, :, first:], slopes)


def unfit(
    q: Tensor, k: Tensor, v: Tensor, window: int | None = None, slopes: Tensor | None = None
) -> str | None:
    """Why these inputs cannot go through the kernel, in words; None: they can."""
    if q.shape[2] != 1:
        return f"one query at a time, and there are {q.shape[2]}"
    if k.shape != v.shape or q.shape[-1] != k.shape[-1]:
        return "q, k and v must have the same number of channels, k and v the same shape"
    if q.shape[1] % k.shape[1]:
        return f"num_heads (={q.shape[1]}) must be a multiple of num_kv_heads (={k.shape[1]})"
    if q.shape[-1] > CHANNELS:
        return f"head_dim (={q.shape[-1]}) must be at most {CHANNELS}"
    if not q.dtype == k.dtype == v.dtype or q.dtype not in DTYPES:
        return f"q, k and v must all be float32 or bfloat16, and are {q.dtype}, {k.dtype} and {v.dtype}"
    return unfit_here(q)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], object]]]:
    """Calls that reach the kernel in every configuration, on "meta"; few: a quick choice of them."""
    sizes = [(64, 1), (33, 4)] if few else product((8, 16, 33, 64, 128, 256), (1, 2, 3, 4))
    for (channels, shared), dtype in product(sizes, DTYPES):
        kept = torch.empty(4, 100, 4, channels, dtype=dtype, device="meta").transpose(1, 2)
        q = torch.empty(4, 4 * shared, 1, channels, dtype=dtype, device="meta")
        slopes = torch.empty(4 * shared, device="meta")
        yield f"C {channels}, R {shared}", dtype, partial(window_decode_triton, q, kept, kept, 64, slopes)


class _Decode(Folding):
    """slopes: [B H], of each sequence its own, since stacked members have their own."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor | None) -> Tensor:  # pyright: ignore
        q, k, v, y = rows_last(q), rows_last(k), rows_last(v), q.new_empty(q.shape)
        channels, shared = power_of_two(q.shape[-1]), q.shape[1] // k.shape[1]
        heads = next(size for size in TOGETHER if shared % size == 0)
        _decode[(q.shape[0] * q.shape[1] // heads,)](
            *(q, *q.stride()[:2], k, *k.stride()[:3], v, *v.stride()[:3]),
            *(y, y if slopes is None else slopes.contiguous()),
            *(q.shape[1] // heads, shared // heads, k.shape[2], q.shape[-1] ** -0.5),
            **{"R": heads, "C": q.shape[-1], "CS": channels},
            **{"BLOCK": min(256, TILE // channels), "BIASED": slopes is not None},
            **launch_options(4, 1),
        )
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        del output
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        q, k, v, slopes = ctx.saved_tensors
        groups, scale = k.shape[1], q.shape[-1] ** -0.5
        q, dy, k, v = (x.float() for x in (_by_group(q, groups), _by_group(dy, groups), k, v))
        logits, age = (q @ k.mT) * scale, torch.arange(k.shape[2] - 1, -1, -1, device=k.device)
        if slopes is not None:
            logits = logits - slopes.unflatten(1, (groups, -1))[..., None] * age
        p, dp = logits.softmax(-1), dy @ v.mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        dq, dk, dv = (ds @ k * scale).flatten(1, 2)[:, :, None], ds.mT @ q * scale, p.mT @ dy
        return dq, dk, dv, None if slopes is None else -(ds * age).sum(-1).flatten(1)


def _by_group(x: Float[Tensor, "B H 1 C"], groups: int) -> Float[Tensor, "B G R C"]:
    return x[:, :, 0].unflatten(1, (groups, -1))


@triton.jit
def _decode(
    q, q_b, q_h, k, k_b, k_g, k_s, v, v_b, v_g, v_s, y, slopes, programs, each, S, scale,
    R: tl.constexpr, C: tl.constexpr, CS: tl.constexpr, BLOCK: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """One program: R query heads; `each` programs in a row share a key/value head, `programs` a sequence."""
    b, part, c = (tl.program_id(0) // programs).to(tl.int64), tl.program_id(0) % programs, tl.arange(0, CS)
    g, row = part // each, tl.program_id(0).to(tl.int64) * R
    q, k, v = q + b * q_b + part * R * q_h + c, k + b * k_b + g * k_g, v + b * v_b + g * v_g
    queries, sums = (), ()
    for r in tl.static_range(R):
        queries += (tl.load(q + r * q_h, c < C, 0.0).to(tl.float32) * (scale * LOG2_E),)
        sums += ((float("-inf"), 0.0, tl.zeros([CS], tl.float32)),)
    for start in range(0, S, BLOCK):
        j = start + tl.arange(0, BLOCK)
        keys = load_rows(k, k_s, j, S, C, CS).to(tl.float32)
        values = load_rows(v, v_s, j, S, C, CS).to(tl.float32)
        added = ()
        for r in tl.static_range(R):
            m, weight, total = sums[r]
            logits = tl.sum(keys * queries[r][None, :], 1)
            if BIASED:
                logits -= tl.load(slopes + row + r) * LOG2_E * (S - 1 - j)
            logits = tl.where(j < S, logits, float("-inf"))
            peak = tl.maximum(m, tl.max(logits, 0))
            p, shrink = tl.exp2(logits - peak), tl.exp2(m - peak)
            total = total * shrink + tl.sum(p[:, None] * values, 0)
            added += ((peak, weight * shrink + tl.sum(p, 0), total),)
        sums = added
    for r in tl.static_range(R):
        m, weight, total = sums[r]
        tl.store(y + (row + r) * C + c, (total / weight).to(y.dtype.element_ty), c < C)
