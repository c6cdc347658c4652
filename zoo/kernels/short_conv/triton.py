"""The short convolution in Triton: x is read once forward, and neither it nor the tail is copied or padded.

With past the tail and x one after the other, T time and K taps,

    y_t = bias + sum of w_r past_{t-r},   dpast_t = sum of w_r dy_{t+r},   dw_r = sum of dy_t past_{t-r},

a row of the past comes K times, K - 1 of them out of the cache.  dw and the bias's gradient are summed in
registers over a span of a sequence, and written in shares, which torch adds up: no atomics, so two runs give
the same bits.

Floor: bytes, two scalars a step and channel forward and three backward; at B = 256, T = 256, C = 128 in
bfloat16 that is 34 MB and 50 MB, 7 us and 10 us on an H200.

B batch, T time, C channels, K taps, M members (B / M sequences in a row share a weight).  Tensors come with
the strides they have; the last must be 1.  x and dy may be float32 or bfloat16, and so may the weight.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportOperatorIssue=false, reportIndexIssue=false
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

from zoo.kernels.folding import Folding, Gradients
from zoo.kernels.launching import launch_options, strided, unfit_here
from zoo.kernels.tiles import rows_last

WITHOUT_PRODUCTS = frozenset({"forward", "backward"})  # kernels that have no use for tensor cores
DTYPES = (torch.float32, torch.bfloat16)
TAPS = 8  # at most: the backward pass has a tile of sums for each
BLOCK = 64  # channels of a program
SPAN, PROGRAMS = 128, 1056  # steps that a program of the backward pass has at least, where there are so many


def short_conv_triton(
    x: Float[Tensor, "B T C"],
    weight: Float[Tensor, "K C"],
    bias: Float[Tensor, "C"] | None = None,
    tail: Float[Tensor, "B K-1 C"] | None = None,
) -> Float[Tensor, "B T C"]:
    """What `short_conv_reference` says; y has the dtype of x."""
    return _Conv.apply(x, weight[None], None if bias is None else bias[None], tail)


def steps(kernel: str, taps: int, length: int) -> int:
    """At a time: so many that no register spills, whatever the compiler loads ahead."""
    most = 16 if kernel == "forward" else 8 if taps <= 4 else 4
    return min(most, triton.next_power_of_2(length))


def unfit(x: Tensor, weight: Tensor, bias: Tensor | None = None, tail: Tensor | None = None) -> str | None:
    """Why these inputs cannot go through the kernel, in words; None: they can."""
    if len(weight) > TAPS:
        return f"kernel_size (={len(weight)}) must be at most {TAPS}"
    given = [s.dtype for s in (x, weight, bias, tail) if s is not None]
    if wrong := [dtype for dtype in given if dtype not in DTYPES]:
        return f"all inputs must be float32 or bfloat16, and one is {wrong[0]}"
    return unfit_here(x)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Calls that reach every kernel in every configuration, on "meta"; few: a quick choice of them."""
    sizes = [(4, 1024, True)] if few else product((1, 2, 3, 4, 8), (1024, 1000, 1), (False, True))
    for (taps, length, tailed), dtype in product(sizes, DTYPES):
        x, weight = (
            torch.empty(4, length, 200, dtype=dtype, device="meta"),
            torch.empty(taps, 200, device="meta"),
        )
        tail = torch.empty(4, taps - 1, 200, dtype=dtype, device="meta") if tailed else None
        call = partial(_both_ways, x.requires_grad_(), weight.requires_grad_(), weight[0], tail)
        yield f"K {taps}, T {length}{', a tail' if tailed else ''}", dtype, call


def _both_ways(*inputs: Tensor) -> None:
    short_conv_triton(*inputs).sum().backward()


class _Conv(Folding):
    """(x: [B T C], weight: [M K C], bias: [M C] or None, tail: [B K-1 C] or None) -> y: [B T C]"""

    @staticmethod
    def forward(  # pyright: ignore
        x: Tensor, weight: Tensor, bias: Tensor | None, tail: Tensor | None
    ) -> Tensor:
        x, weight, y = rows_last(x), weight.contiguous(), x.new_empty(x.shape)
        tail = None if tail is None else rows_last(tail)
        own = steps("forward", weight.shape[1], x.shape[1])
        _forward[x.shape[0] * triton.cdiv(x.shape[2], BLOCK), triton.cdiv(x.shape[1], own)](
            *(*strided(x, tail, dims=2), weight, None if bias is None else bias.contiguous(), y),
            *(x.shape[0] // len(weight), *x.shape[1:]),
            **{"K": weight.shape[1], "OWN": own, "BLOCK": BLOCK, **launch_options(4, 1)},
        )
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        del output
        x, weight, bias, tail = inputs
        ctx.save_for_backward(x, weight, tail)
        ctx.bias = None if bias is None else bias.dtype

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        dx, dweight, dbias, dtail = _Backward.apply(*ctx.saved_tensors, dy)
        tailed = ctx.saved_tensors[2] is not None
        return dx, dweight, None if ctx.bias is None else dbias.to(ctx.bias), dtail if tailed else None


class _Backward(Gradients):
    """dx, dweight, dbias and dtail."""

    @staticmethod
    def forward(  # pyright: ignore
        x: Tensor, weight: Tensor, tail: Tensor | None, dy: Tensor
    ) -> tuple[Tensor, ...]:
        x, weight, dy, dx = rows_last(x), weight.contiguous(), rows_last(dy), x.new_empty(x.shape)
        tail = None if tail is None else rows_last(tail)
        (batch, length, channels), (members, taps, _) = x.shape, weight.shape
        dtail = x.new_empty(batch, 0 if tail is None else taps - 1, channels)
        own, programs = steps("backward", taps, length), batch * triton.cdiv(channels, BLOCK)
        spans = max(1, min(length // SPAN, PROGRAMS // programs))
        shares = torch.empty(batch, spans, taps + 1, channels, device=x.device)
        _backward[programs, spans](
            *(*strided(x, tail, dims=2), weight, *strided(dy, dims=2), dx, dtail, shares),
            *(batch // members, length, channels, triton.cdiv(triton.cdiv(length, spans), own) * own),
            **{"K": taps, "KS": triton.next_power_of_2(taps), "OWN": own, "BLOCK": BLOCK},
            **launch_options(4, 1),
        )
        sums = shares.unflatten(0, (members, -1)).sum((1, 2))
        return dx, sums[:, :taps].to(weight.dtype), sums[:, taps], dtail


@triton.jit
def load_past(x, x_t, tail, tail_t, t, c, T, C, K: tl.constexpr):
    """Rows t and channels c of the tail and x, in float32; zeros where there are none."""
    rows = tl.load(x + t[:, None] * x_t + c[None, :], _within(t, 0, T, c, C), 0.0).to(tl.float32)
    if tail is not None:
        place = t + (K - 1)
        inside = _within(place, 0, K - 1, c, C)
        rows += tl.load(tail + place[:, None] * tail_t + c[None, :], inside, 0.0).to(tl.float32)
    return rows


@triton.jit
def _within(t, begin, end, c, C):
    return ((t >= begin) & (t < end))[:, None] & (c < C)[None, :]


@triton.jit
def _forward(
    x, x_b, x_t, tail, tail_b, tail_t, weight, bias, y, each, T, C,
    K: tl.constexpr, OWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program: OWN steps of BLOCK channels of a sequence."""
    blocks = tl.cdiv(C, BLOCK)
    b, c = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    member, t = b // each, tl.program_id(1) * OWN + tl.arange(0, OWN)
    x += b * x_b
    if tail is not None:
        tail += b * tail_b
    total = tl.zeros([OWN, BLOCK], tl.float32)
    if bias is not None:
        total += tl.load(bias + member * C + c, c < C, 0.0).to(tl.float32)[None, :]
    for r in tl.static_range(K):
        w = tl.load(weight + (member * K + r) * C + c, c < C, 0.0).to(tl.float32)
        total += w[None, :] * load_past(x, x_t, tail, tail_t, t - r, c, T, C, K)
    at = y + (b * T + t[:, None]) * C + c[None, :]
    tl.store(at, total.to(y.dtype.element_ty), _within(t, 0, T, c, C))


@triton.jit
def _backward(
    x, x_b, x_t, tail, tail_b, tail_t, weight, dy, dy_b, dy_t, dx, dtail, shares, each, T, C, span,
    K: tl.constexpr, KS: tl.constexpr, OWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program: a span of BLOCK channels of a sequence; the first one has the tail too."""
    blocks, part = tl.cdiv(C, BLOCK), tl.program_id(1)
    b, c = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    x, dy, dx = x + b * x_b, dy + b * dy_b + c[None, :], dx + b * T * C + c[None, :]
    if tail is not None:
        tail += b * tail_b
    weights, sums, bias = (), (), tl.zeros([OWN, BLOCK], tl.float32)
    for r in tl.static_range(K):
        w = tl.load(weight + (b // each * K + r) * C + c, c < C, 0.0).to(tl.float32)
        weights += (w[None, :],)
        sums += (tl.zeros([OWN, BLOCK], tl.float32),)
    for start in range(part * span, min((part + 1) * span, T), OWN):
        t = start + tl.arange(0, OWN)
        own = tl.load(dy + t[:, None] * dy_t, _within(t, 0, T, c, C), 0.0).to(tl.float32)
        bias += own
        total, added = own * weights[0], (sums[0] + own * load_past(x, x_t, tail, tail_t, t, c, T, C, K),)
        for r in tl.static_range(1, K):
            later = tl.load(dy + (t + r)[:, None] * dy_t, _within(t + r, 0, T, c, C), 0.0).to(tl.float32)
            total += later * weights[r]
            added += (sums[r] + own * load_past(x, x_t, tail, tail_t, t - r, c, T, C, K),)
        sums = added
        tl.store(dx + t[:, None] * C, total.to(dx.dtype.element_ty), _within(t, 0, T, c, C))
    shares += (b * tl.num_programs(1) + part) * (K + 1) * C + c
    for r in tl.static_range(K):
        tl.store(shares + r * C, tl.sum(sums[r], 0), c < C)
    tl.store(shares + K * C, tl.sum(bias, 0), c < C)
    if tail is not None:
        _tail_gradient(dy, dy_t, weights, dtail + b * (K - 1) * C, c, T, C, K, KS)


@triton.jit
def _tail_gradient(dy, dy_t, weights, dtail, c, T, C, K: tl.constexpr, KS: tl.constexpr):
    """The first program of a sequence sums what the tail gave to the first steps."""
    if tl.program_id(1) == 0:
        place = tl.arange(0, KS)
        total = tl.zeros([KS, c.shape[0]], tl.float32)
        for r in tl.static_range(1, K):
            t = place - (K - 1) + r
            later = tl.load(dy + t[:, None] * dy_t, _within(t, 0, T, c, C), 0.0).to(tl.float32)
            total += later * weights[r]
        at = dtail + place[:, None] * C + c[None, :]
        tl.store(at, total.to(dtail.dtype.element_ty), _within(place, 0, K - 1, c, C))
