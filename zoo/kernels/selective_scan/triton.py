"""Compute Mamba's selective scan in Triton: the state of a few channels stays in registers for all steps.

A program has BLOCK channels of one sequence and loops over time.  A [B T D N] tensor never exists: the
forward pass keeps the state after every CHUNK steps, and the backward pass rebuilds the states of a chunk
from it, in registers, before it goes through them in reverse.  With a_t = exp(dt_t A) and u_t = dt_t x_t,

    h_t = a_t h_{t-1} + u_t B_t^T,                     y_t = h_t C_t,
    G_t = dy_t C_t^T + a_{t+1} G_{t+1},                E_t = G_t a_t h_{t-1},
    du_t = G_t B_t,   dx_t = dt_t du_t,                ddt_t = x_t du_t + sum of E_t A over N,
    dB_t = sum of u_t G_t, dC_t = sum of dy_t h_t over D,   dA = sum of dt_t E_t over time,

where the gradient of the last state stands for a_{T+1} G_{T+1}, and a_1 G_1 is that of the first.  What
crosses programs, dB and dC over blocks of channels and dA over sequences, is written in shares and summed by
torch: no atomics, so two runs give the same bits.

Floor: B T D N exponentials forward and twice as many backward, of which a multiprocessor makes 16 a cycle.
At B = 64, T = 256, D = 128, N = 16 that is 8 us forward on an H200; the 20 bytes of each (b, t, d), of which
4 N / CHUNK are for saved states, take 10 us.  The parallelism is B D / BLOCK programs of a few warps, forward
1024 there, eight for each multiprocessor; with fewer the card waits for one step after the other.  Time is
not split: it would need the scan of every piece twice.

B batch, T time, D channels, N state, M members (B / M sequences in a row share an A).  Tensors come with the
strides they have; the last must be 1.  Each may be float32 or bfloat16; states and sums are float32.
"""

# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from zoo.kernels.common.folding import Folding, Gradients
from zoo.kernels.common.launching import launch_options, strided, unfit_here
from zoo.kernels.common.tiles import rows_last
from zoo.kernels.selective_scan.triton_backward import scan_backward
from zoo.kernels.selective_scan.triton_forward import scan_forward

D_STATE = 256  # at most, filled up with zeros to a power of two
DTYPES = (torch.float32, torch.bfloat16)
BLOCK = {"forward": 8, "backward": 16}  # channels of a program: few make many programs, many make few shares
CHUNK = {8: (8, 8), 16: (8, 4), 32: (6, 4), 64: (6, 4), 128: (4, 4), 256: (4, 2)}  # N a multiple of 4, or not


class Cut(NamedTuple):
    """The sizes of one program.  chunk: steps between two saved states, whose inputs are loaded at once."""

    chunk: int
    num_warps: int


def cut(d_state: int, length: int) -> Cut:
    """Return sizes fixed by the shapes, so that a captured graph and a second run do the same.

    The states of a chunk are all in registers at once, so the more there are of them, the shorter it must be
    to spill none (`python -m tests.kernels.compiled`); rows of A that are not aligned to 16 bytes are
    spread less well over threads.  One step, as in decoding, is a chunk of its own.
    """
    size = _filled(d_state)
    chunk = 1 if length == 1 else CHUNK[size][d_state % 4 != 0]
    return Cut(chunk, max(1, min(8, size // 16)))


def selective_scan_triton(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scan with the state in registers; y has the dtype of x, the state is float32."""
    if state is None:
        state = torch.zeros(x.shape[0], *A.shape, dtype=torch.float32, device=x.device)
    return _Scan.apply(x, dt, A[None], B, C, state.float())[:2]


def unfit(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None = None) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if x.shape != dt.shape or B.shape != C.shape or x.shape[:2] != B.shape[:2]:
        return "x and dt must be [B T D], B and C [B T N]"
    if A.shape != (x.shape[-1], B.shape[-1]):
        return f"A must be [D N], ({x.shape[-1]}, {B.shape[-1]}), and is {tuple(A.shape)}"
    if A.shape[1] > D_STATE:
        return f"d_state (={A.shape[1]}) must be at most {D_STATE}"
    given = [s.dtype for s in (x, dt, A, B, C, state) if s is not None]
    if wrong := [dtype for dtype in given if dtype not in DTYPES]:
        return f"all inputs must be float32 or bfloat16, and one is {wrong[0]}"
    return unfit_here(x)


class _Scan(Folding):
    """Map (x, dt: [B T D], A: [M D N], B, C: [B T N], first h: [B D N]) to y, last h, h of chunks."""

    @staticmethod
    def forward(  # pyright: ignore
        x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, first: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Launch the forward kernel."""
        inputs = [rows_last(s) for s in (x, dt, B, C)]
        A, first = A.contiguous(), first.contiguous()
        sizes = _sizes(A, x.shape[1], "forward")
        y, last = x.new_empty(x.shape), torch.empty_like(first)
        saved = first.new_empty(x.shape[0], (x.shape[1] - 1) // sizes["CHUNK"], *first.shape[1:])
        scan_forward[(x.shape[0] * _blocks(x, "forward"),)](
            *strided(*inputs, dims=2),
            *(A, first, y, last, saved, x.shape[0] // A.shape[0], x.shape[1], x.shape[2]),
            **sizes,
        )
        return y, last, saved

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, ...]:  # pyright: ignore
        """Return the gradients; an output that no loss reads counts as zeros."""
        x, *_, first, _ = ctx.saved_tensors
        dy, dlast, _ = grads
        dy = torch.zeros_like(x) if dy is None else dy
        dlast = torch.zeros_like(first) if dlast is None else dlast
        return _Backward.apply(*ctx.saved_tensors, dy, dlast)


class _Backward(Gradients):
    @staticmethod
    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Launch the backward kernel, and sum its shares."""
        x, dt, A, B, C, first, saved, dy, dlast = inputs
        along = [rows_last(s) for s in (x, dt, B, C, dy)]
        A, first, saved, dlast = (s.contiguous() for s in (A, first, saved, dlast))
        dx, ddt = x.new_empty(x.shape), dt.new_empty(dt.shape)
        dA, dfirst = torch.empty_like(first), torch.empty_like(first)
        blocks = _blocks(x, "backward")
        shares = first.new_empty(2, B.shape[0], blocks, *B.shape[1:])
        scan_backward[(x.shape[0] * blocks,)](
            *strided(*along, dims=2),
            *(A, first, saved, dlast, dx, ddt, dA, *shares, dfirst),
            *(x.shape[0] // A.shape[0], x.shape[1], x.shape[2]),
            **_sizes(A, x.shape[1], "backward"),
        )
        dB, dC = shares.sum(2)
        dA = dA.unflatten(0, (A.shape[0], -1)).sum(1)
        return dx, ddt, dA.to(A.dtype), dB.to(B.dtype), dC.to(C.dtype), dfirst


def _blocks(x: Tensor, way: str) -> int:
    return triton.cdiv(x.shape[2], BLOCK[way])


def _filled(d_state: int) -> int:
    return max(8, triton.next_power_of_2(d_state))


def _sizes(A: Tensor, length: int, way: str) -> dict[str, Any]:
    d_state = A.shape[-1]
    chunk, num_warps = cut(d_state, length)
    sizes = {"N": d_state, "NS": _filled(d_state), "BLOCK": BLOCK[way], "CHUNK": chunk}
    return sizes | launch_options(num_warps, 1)
