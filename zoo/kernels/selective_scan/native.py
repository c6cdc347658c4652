"""The selective scan for a CPU in C (native.c): about five times as fast as in torch (benchmarks/).

P members of a population (1 without one), B sequences, T time, N state, D channels, Q steps between two kept
states.
"""

from pathlib import Path

import torch
from torch import Tensor

from zoo.kernels.common.native import Native, drawn, side_by_side
from zoo.kernels.selective_scan.differentiable import differentiable
from zoo.kernels.selective_scan.fused_loop import selective_scan_fused_loop

BLOCK = 16  # Q


def _forward(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    x, dt, A, B, C = (s.contiguous() for s in (x, dt, A, B, C))
    y, last = torch.empty_like(x), h.clone(memory_format=torch.contiguous_format)
    P, sequences, T, D = x.shape
    N = A.shape[1]
    starts = h.new_empty(P, sequences, -(-T // BLOCK), N, D)

    def run(p: int, rows: slice) -> None:
        x_, dt_, *others = (s[p, rows] for s in (x, dt, B, C, last, starts, y))
        sizes = len(x_), T, N, D, BLOCK
        NATIVE.library()("scan_forward", *sizes, x_, dt_, A[p], *others, x.new_empty(2 * D))

    side_by_side(run, P, sequences)
    return y, last, starts


def _backward(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, starts: Tensor, dy: Tensor, dlast: Tensor
) -> tuple[Tensor, ...]:
    x, dt, A, B, C, dy = (s.contiguous() for s in (x, dt, A, B, C, dy))
    dx, ddt, dB, dC = (torch.empty_like(s) for s in (x, dt, B, C))
    dA, owed = torch.zeros_like(A), dlast.clone(memory_format=torch.contiguous_format)
    P, sequences, T, D = x.shape
    N = A.shape[1]

    def run(p: int, rows: slice) -> tuple[int, Tensor]:
        """Return the member, and this share of its dA."""
        share, scratch = torch.zeros_like(A[p]), x.new_empty((2 * BLOCK + 1) * N * D + 4 * D)
        x_, dt_, *others = (s[p, rows] for s in (x, dt, B, C, starts, dy, owed, dx, ddt))
        grads = share, dB[p, rows], dC[p, rows]
        sizes = len(x_), T, N, D, BLOCK
        NATIVE.library()("scan_backward", *sizes, x_, dt_, A[p], *others, *grads, scratch)
        return p, share

    for p, share in side_by_side(run, P, sequences):
        dA[p] += share
    return dx, ddt, dA, dB, dC, owed


def _inputs() -> list[Tensor]:
    """Draw sizes that are no multiple of what a register holds."""
    B, T, D, N = 3, 2 * BLOCK + 5, 19, 3
    x, dt, A, *others = drawn((B, T, D), (B, T, D), (D, N), (B, T, N), (B, T, N), (B, D, N))
    return [x, dt.sigmoid(), -A.exp(), *others]


selective_scan_native = differentiable(_forward, _backward)
NATIVE = Native(Path(__file__).with_suffix(".c"), selective_scan_native, selective_scan_fused_loop, _inputs)
absent, unfit = NATIVE.absent, NATIVE.unfit
