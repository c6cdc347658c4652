"""Compute the diagonal recurrence in Triton: each channel's state stays in a register for all steps.

One program has BLOCK channels of one sequence and loops over time.  With dh_t the gradient of h_t,

    h_t = decay_t h_{t-1} + x_t,
    g_t = dh_t + decay_{t+1} g_{t+1},   dx_t = g_t,   ddecay_t = g_t h_{t-1},   d(first state) = decay_1 g_1,

so the backward pass is the same loop from the end.  CHUNK steps are loaded at once, and a chunk ahead.

Floor: bytes, three scalars a step and channel forward and five backward; at B = 64, T = 256, D = 128 in
float32 that is 25 MB and 42 MB, 6 us and 10 us on an H200.  The parallelism is B D threads, each with the
loads of CHUNK steps on their way.

B batch (all leading dimensions), T time, D channels.  Tensors come with the strides they have; the last must
be 1.  decay and x are both float32 or both bfloat16, and so is h; what goes from step to step is float32.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportOperatorIssue=false, reportIndexIssue=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zoo.kernels.common.folding import Folding, Gradients
from zoo.kernels.common.launching import launch_options, strided, unfit_here
from zoo.kernels.common.tiles import rows_last

DTYPES = (torch.float32, torch.bfloat16)
BLOCK, CHUNK = 32, 16  # channels of a program, a thread each; steps


def diagonal_scan_triton(decay: Tensor, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scan with every state in a register; all h and the last have the dtype of x."""
    lead, (length, width) = x.shape[:-2], x.shape[-2:]
    first = torch.zeros_like(x[..., 0, :]) if state is None else state
    decay, x = (s.reshape(-1, length, width) for s in (decay, x))
    h = _Scan.apply(decay, x, first.reshape(-1, width)).reshape(*lead, length, width)
    return h, h[..., -1, :]


def unfit(decay: Tensor, x: Tensor, state: Tensor | None = None) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if decay.shape != x.shape:
        return "decay and x must have the same shape"
    if decay.dtype != x.dtype or x.dtype not in DTYPES:
        return f"decay and x must both be float32 or bfloat16, and are {decay.dtype} and {x.dtype}"
    if state is not None and state.dtype not in DTYPES:
        return f"the state must be float32 or bfloat16, and is {state.dtype}"
    return unfit_here(x)


class _Scan(Folding):
    """Map (decay, x: [B T D], first state: [B D]) to h: [B T D]."""

    @staticmethod
    def forward(decay: Tensor, x: Tensor, first: Tensor) -> Tensor:  # pyright: ignore
        """Launch the forward kernel."""
        decay, x, first, h = rows_last(decay), rows_last(x), first.contiguous(), x.new_empty(x.shape)
        _forward[_grid(x)](*(*strided(decay, x, dims=2), first, h, *x.shape[1:]), **_sizes(x))
        return h

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        decay, _, first = inputs
        ctx.save_for_backward(decay, first, output)

    @staticmethod
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Return the gradients of decay, x and the first state."""
        return _Backward.apply(*ctx.saved_tensors, dh)


class _Backward(Gradients):
    @staticmethod
    def forward(decay: Tensor, first: Tensor, h: Tensor, dh: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Launch the backward kernel."""
        decay, first, h, dh = rows_last(decay), first.contiguous(), h.contiguous(), rows_last(dh)
        ddecay, dx, dfirst = decay.new_empty(decay.shape), h.new_empty(h.shape), first.new_empty(first.shape)
        _backward[_grid(h)](
            *(*strided(decay, dh, dims=2), first, h, ddecay, dx, dfirst, *h.shape[1:]), **_sizes(h)
        )
        return ddecay, dx, dfirst


def _grid(x: Tensor) -> tuple[int]:
    return (x.shape[0] * triton.cdiv(x.shape[2], BLOCK),)


def _sizes(x: Tensor) -> dict[str, Any]:
    return {"BLOCK": BLOCK, "CHUNK": 1 if x.shape[1] == 1 else CHUNK, **launch_options(1, 1)}


@triton.jit
def load_chunk(at, stride, d, start, begin, T, D, CHUNK: tl.constexpr):
    """Load CHUNK rows from `start` on; zeros where there is none between `begin` and T."""
    rows = ()
    for i in tl.static_range(CHUNK):
        t = start + i
        has = d < tl.where((t >= begin) & (t < T), D, 0)
        rows += (tl.load(at + t * stride, has, 0.0).to(tl.float32),)
    return rows


@triton.jit
def _forward(
    decay, decay_b, decay_t, x, x_b, x_t, first, h, T, D, BLOCK: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    """Scan BLOCK channels of one sequence."""
    blocks = tl.cdiv(D, BLOCK)
    b, d = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    decay, x, h = decay + b * decay_b + d, x + b * x_b + d, h + b * T * D + d
    state = tl.load(first + b * D + d, d < D, 0.0).to(tl.float32)
    decays, xs = load_chunk(decay, decay_t, d, 0, 0, T, D, CHUNK), load_chunk(x, x_t, d, 0, 0, T, D, CHUNK)
    for start in range(0, T, CHUNK):
        after = start + CHUNK
        next_decays = load_chunk(decay, decay_t, d, after, 0, T, D, CHUNK)
        next_xs = load_chunk(x, x_t, d, after, 0, T, D, CHUNK)
        for i in tl.static_range(CHUNK):
            state = decays[i] * state + xs[i]
            has = d < tl.where(start + i < T, D, 0)
            tl.store(h + (start + i) * D, state.to(h.dtype.element_ty), has)
        decays, xs = next_decays, next_xs


@triton.jit
def _backward(
    decay, decay_b, decay_t, dh, dh_b, dh_t, first, h, ddecay, dx, dfirst, T, D,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Go back through BLOCK channels of one sequence, the last chunk first; past the end all is zero."""
    blocks = tl.cdiv(D, BLOCK)
    b, d = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    decay, dh, before = decay + b * decay_b + d, dh + b * dh_b + d, h + b * T * D + d - D
    dx, ddecay = dx + b * T * D + d, ddecay + b * T * D + d
    owed = tl.zeros([BLOCK], tl.float32)  # gradient of h by all later steps
    final = (T - 1) // CHUNK * CHUNK
    decays = load_chunk(decay, decay_t, d, final, 0, T, D, CHUNK)
    dhs = load_chunk(dh, dh_t, d, final, 0, T, D, CHUNK)
    befores = load_chunk(before, D, d, final, 1, T, D, CHUNK)
    for back in range(0, final + 1, CHUNK):
        start = final - back
        next_decays = load_chunk(decay, decay_t, d, start - CHUNK, 0, T, D, CHUNK)
        next_dhs = load_chunk(dh, dh_t, d, start - CHUNK, 0, T, D, CHUNK)
        next_befores = load_chunk(before, D, d, start - CHUNK, 1, T, D, CHUNK)
        for i in tl.static_range(CHUNK - 1, -1, -1):
            t = start + i
            has = d < tl.where(t < T, D, 0)
            g = dhs[i] + owed
            earlier = befores[i]
            if i == 0:
                begin = d < tl.where(t == 0, D, 0)
                earlier += tl.load(first + b * D + d, begin, 0.0).to(tl.float32)
            tl.store(dx + t * D, g.to(dx.dtype.element_ty), has)
            tl.store(ddecay + t * D, (g * earlier).to(ddecay.dtype.element_ty), has)
            owed = decays[i] * g
        decays, dhs, befores = next_decays, next_dhs, next_befores
    tl.store(dfirst + b * D + d, owed.to(dfirst.dtype.element_ty), d < D)
