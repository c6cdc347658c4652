"""The selective scan in torch, for a CPU: forward and backward in blocks that stay in the cache.

A block is BLOCK steps of as many sequences as CACHED scalars allow.  All work that is not sequential is done
for the block at once; a step itself is one fused multiply-add in place.  Forward keeps the state at the start
of each block, and backward rebuilds the block from it: a [B T D N] tensor never exists.  All blocks share the
buffers of one, because new memory for each block would not be in the cache.

P members of a population (1 without one), B sequences, T time, Q steps of a block, N state, D channels.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.cached import tiles
from zoo.kernels.selective_scan.differentiable import differentiable

BLOCK = 16  # steps between two kept states
CACHED = 1 << 19  # scalars in one of the three buffers of a block: fewer cost calls, more leave the cache
LOG2_E = math.log2(math.e)


class _Buffer(NamedTuple):
    whole: Float[Tensor, "P b Q N D"]
    steps: tuple[Tensor, ...]  # its Q views


def _forward(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    y, last = torch.empty_like(x), torch.empty_like(h, memory_format=torch.contiguous_format)
    starts = h.new_empty(-(-x.shape[2] // BLOCK), *h.shape)
    rates, buffers = _along_steps(A) * LOG2_E, _buffers(A, 2)
    for rows in tiles(x, x.shape[1], BLOCK * A.numel(), CACHED):
        state = h[:, rows]
        for i, at in enumerate(_blocks(x, rows)):
            starts[i, :, rows] = state
            dt_ = dt[at].contiguous()  # because it is read more than once
            decay, states = buffers(*dt_.shape[:3])
            _run(decay, states, dt_ * x[at], dt_, B[at], rates, starts[i, :, rows])
            y[at] = _dot_n(C[at], states.whole)
            state = states.steps[-1]
        last[:, rows] = state
    return y, last, starts


def _backward(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, starts: Tensor, dy: Tensor, dlast: Tensor
) -> tuple[Tensor, ...]:
    """Rebuild h block by block, run its gradient G backwards, read all other gradients off the two."""
    dx, ddt, dB, dC = (torch.empty_like(s) for s in (x, dt, B, C))
    dA, dh = torch.zeros_like(A), torch.empty_like(dlast)
    A, buffers = _along_steps(A), _buffers(A, 3)
    rates = A * LOG2_E
    for rows in tiles(x, x.shape[1], BLOCK * A.numel(), CACHED):
        later = dlast[:, rows]  # gradient of the block's last state by all that comes after it
        for i, at in reversed(list(enumerate(_blocks(x, rows)))):
            x_, dt_, B_, C_, dy_ = (s[at].contiguous() for s in (x, dt, B, C, dy))
            decay, h, owed = buffers(*x_.shape[:3])
            u, start, G = dt_ * x_, starts[i, :, rows], owed.whole
            _run(decay, h, u, dt_, B_, rates, start)
            _run_back(owed, decay, dy_, C_, later)
            du = _dot_n(B_, G)
            dx[at], dB[at], dC[at] = du * dt_, _dot_d(G, u), _dot_d(h.whole, dy_)
            G.mul_(decay.whole)
            later = owed.steps[0].clone()
            G[:, :, 1:].mul_(h.whole[:, :, :-1])  # G is now the gradient of the exponent dt A
            owed.steps[0].mul_(start)
            dA += torch.mul(G, dt_[..., None, :], out=h.whole).sum((1, 2))
            ddt[at] = G.mul_(A).sum(-2).addcmul_(du, x_)
        dh[:, rows] = later
    return dx, ddt, dA, dB, dC, dh


def _along_steps(A: Tensor) -> Tensor:
    """Turn [P N D] into a contiguous [P 1 1 N D]: a broadcast over strides takes seven times as long."""
    return A[:, None, None].contiguous()


def _buffers(like: Tensor, count: int) -> Callable[[int, int, int], list[_Buffer]]:
    """Return a function from P, b and Q to `count` buffers; the last rows and steps may be fewer."""

    @cache
    def made(*sizes: int) -> list[_Buffer]:
        fresh = (like.new_empty(*sizes, *like.shape[-2:]) for _ in range(count))
        return [_Buffer(whole, whole.unbind(2)) for whole in fresh]

    return made


def _blocks(x: Tensor, rows: slice) -> Iterator[tuple[slice, slice, slice]]:
    """Yield the places of the blocks of these rows in [P B T X]."""
    for lo in range(0, x.shape[2], BLOCK):
        yield slice(None), rows, slice(lo, lo + BLOCK)


def _run(decay: _Buffer, h: _Buffer, u: Tensor, dt: Tensor, B: Tensor, rates: Tensor, state: Tensor) -> None:
    """Fill in the block's decays and states; u is dt x.  exp2 takes under half the time of exp on a CPU."""
    torch.mul(dt[..., None, :], rates, out=decay.whole).exp2_()
    torch.mul(u[..., None, :], B[..., None], out=h.whole)
    for decay_t, h_t in zip(decay.steps, h.steps, strict=True):
        h_t.addcmul_(decay_t, state)
        state = h_t


def _run_back(owed: _Buffer, decay: _Buffer, dy: Tensor, C: Tensor, later: Tensor) -> None:
    """Fill in dLoss/dh of each step: its own output's share and the decayed share of the next step."""
    torch.mul(dy[..., None, :], C[..., None], out=owed.whole)
    steps = owed.steps
    steps[-1].add_(later)
    for t in range(len(steps) - 1, 0, -1):
        steps[t - 1].addcmul_(decay.steps[t], steps[t])


def _dot_n(s: Tensor, h: Tensor) -> Tensor:
    """Map [P b Q N], [P b Q N D] to [P b Q D]."""
    return torch.bmm(s.reshape(-1, 1, s.shape[-1]), h.flatten(0, 2)).view(*h.shape[:3], h.shape[-1])


def _dot_d(h: Tensor, s: Tensor) -> Tensor:
    """Map [P b Q N D], [P b Q D] to [P b Q N]."""
    return torch.bmm(s.reshape(-1, 1, s.shape[-1]), h.flatten(0, 2).mT).view(*h.shape[:4])


selective_scan_fused_loop = differentiable(_forward, _backward)
