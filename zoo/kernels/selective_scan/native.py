"""The selective scan for a CPU in C (native.c): six times as fast as what torch's operations make of it.

It is compiled at its first use in this user's home, and compared with the form in torch at the first use of
each process; where there is no compiler, or the two disagree, the form in torch runs.

P members of a population (1 without one), B sequences, T time, N state, D channels, Q steps between two kept
states.
"""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from zoo.kernels.native import Library, Missing, library
from zoo.kernels.selective_scan.differentiable import differentiable, wide
from zoo.kernels.selective_scan.fused_loop import selective_scan_fused_loop

SOURCE = Path(__file__).with_suffix(".c")
BLOCK = 16  # Q
CLOSE = 1e-4  # how far from the form in torch, relative to the largest; rounding makes 1e-6 of it


def unfit(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None = None) -> str | None:
    """Why these inputs cannot go through it, in words; None: they can."""
    if x.device.type != "cpu":
        return f"native runs on a CPU, and the tensors are on {x.device.type}"
    given = [s for s in (x, dt, A, B, C, state) if s is not None]
    if wide(x, A) != torch.float32 or any(s.dtype == torch.float64 for s in given):
        return "native computes in float32"
    if torch.compiler.is_compiling():
        return "trainer.step=compile cannot trace it"
    return absent()


@functools.cache
def absent() -> str | None:
    """Why there is none on this machine, in one line; None: there is one, and it computes what it should."""
    try:
        _library()
    except Missing as error:
        return str(error)
    with ThreadPoolExecutor(
        1
    ) as own:  # no mode of the caller's thread holds there: autocast, vmap, inference
        off = own.submit(_distance).result()
    return None if off <= CLOSE else f"it is compiled, and {off:.1e} off the form in torch"


@functools.cache
def _library() -> Library:
    return library(SOURCE)


def _forward(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    x, dt, A, B, C = (s.contiguous() for s in (x, dt, A, B, C))
    y, last = torch.empty_like(x), h.clone(memory_format=torch.contiguous_format)
    P, sequences, T, D = x.shape
    N = A.shape[1]
    starts = h.new_empty(P, sequences, -(-T // BLOCK), N, D)

    def run(p: int, rows: slice) -> None:
        parts = [s[p, rows] for s in (x, dt, B, C, last, starts, y)]
        x_, dt_, *others = parts
        sizes = len(x_), T, N, D, BLOCK
        _library()("scan_forward", *sizes, x_, dt_, A[p], *others, x.new_empty(2 * D))

    _side_by_side(run, P, sequences)
    return y, last, starts


def _backward(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, starts: Tensor, dy: Tensor, dlast: Tensor
) -> tuple[Tensor, ...]:
    x, dt, A, B, C, dy = (s.contiguous() for s in (x, dt, A, B, C, dy))
    dx, ddt, dB, dC = (torch.empty_like(s) for s in (x, dt, B, C))
    dA, owed = torch.zeros_like(A), dlast.clone(memory_format=torch.contiguous_format)
    P, sequences, T, D = x.shape
    N = A.shape[1]

    def run(p: int, rows: slice) -> Tensor:
        """Its share of dA."""
        own, scratch = torch.zeros_like(A[p]), x.new_empty((2 * BLOCK + 1) * N * D + 4 * D)
        x_, dt_, B_, C_, *others = (s[p, rows] for s in (x, dt, B, C, starts, dy, owed, dx, ddt))
        sizes = len(x_), T, N, D, BLOCK
        _library()(
            "scan_backward", *sizes, x_, dt_, A[p], B_, C_, *others, own, dB[p, rows], dC[p, rows], scratch
        )
        return own

    for p, own in _side_by_side(run, P, sequences):
        dA[p] += own
    return dx, ddt, dA, dB, dC, owed


def _side_by_side(run: Callable[..., Tensor | None], P: int, sequences: int) -> list[tuple[int, Tensor]]:
    """(member, what `run` gave) of each share of each member's sequences; on as many threads as torch has."""
    threads = torch.get_num_threads()
    each = max(1, -(-sequences // threads))
    shares = [(p, slice(lo, lo + each)) for p in range(P) for lo in range(0, sequences, each)]
    if threads == 1:
        outputs = [run(*share) for share in shares]
    else:
        with ThreadPoolExecutor(threads) as pool:
            outputs = list(pool.map(lambda share: run(*share), shares))
    return [(p, output) for (p, _), output in zip(shares, outputs, strict=True)]  # pyright: ignore


selective_scan_native = differentiable(_forward, _backward)


def _distance() -> float:
    """Of outputs and gradients from the form in torch: the farthest, relative to the largest of its kind."""
    drawn = torch.Generator().manual_seed(0)
    B, T, D, N = 3, 2 * BLOCK + 5, 19, 3  # no multiple of what a register holds
    sizes = (B, T, D), (B, T, D), (D, N), (B, T, N), (B, T, N), (B, D, N)
    x, dt, A, *others = (torch.randn(size, generator=drawn) for size in sizes)
    inputs = [s.requires_grad_() for s in (x, dt.sigmoid(), -A.exp(), *others)]
    ways = [_all_of(scan, inputs) for scan in (selective_scan_native, selective_scan_fused_loop)]
    apart = [(own - right).abs().max() / right.abs().max() for own, right in zip(*ways, strict=True)]
    return float(torch.stack(apart).max())  # NaN, where one is


def _all_of(scan: Callable[..., tuple[Tensor, Tensor]], inputs: list[Tensor]) -> list[Tensor]:
    y, last = scan(*inputs)
    return [y.detach(), last.detach(), *torch.autograd.grad(y.sin().sum() + last.cos().sum(), inputs)]
