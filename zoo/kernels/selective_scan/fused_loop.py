"""The selective scan for a CPU: forward and backward in blocks that stay in the cache.

A block is BLOCK steps of as many sequences as CACHED scalars allow.  All that is not sequential is done for
the block at once; a step itself is one fused multiply-add in place.  Forward keeps the state at the start of
each block, backward rebuilds the block from it: a [B T D N] tensor never exists.

P members of a population (1 without one), B sequences, T time, Q steps of a block, N state, D channels.
Inside, N stands before D: the long dimension is the contiguous one, and broadcasts run along it.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.folding import all_members_first

BLOCK = 16  # steps between two kept states
CACHED = 1 << 18  # scalars in one of the three buffers of a block
LOG2_E = math.log2(math.e)


def selective_scan_fused_loop(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    A: Float[Tensor, "D N"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    state: Float[Tensor, "B D N"] | None = None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
    """As selective_scan_reference; the state is kept in float32 at least."""
    if state is None:
        state = A.new_zeros(x.shape[0], *A.shape)
    wide = torch.promote_types(torch.promote_types(x.dtype, A.dtype), torch.float32)
    u = (dt * x).to(wide)
    y, last, _ = _Scan.apply(u, dt.to(wide), A.mT.to(wide), B.to(wide), C.to(wide), state.mT.to(wide))
    return y.to(x.dtype), last.mT


class _Scan(Function):
    """(u = dt x, dt: [*P B T D], A: [*P N D], B, C: [*P B T N], h: [*P B N D]) -> y, last h, blocks' h."""

    @staticmethod
    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        if inputs[0].ndim == 4:
            return _forward(*inputs)
        y, last, starts = _forward(*(i[None] for i in inputs))
        return y[0], last[0], starts

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        *kept, _ = inputs  # the first state is among the blocks' own
        ctx.save_for_backward(*kept, output[2])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        u, dt, A, B, C, starts = ctx.saved_tensors
        dy, dlast, _ = grads
        if u.ndim == 4:
            return _backward(u, dt, A, B, C, starts, dy, dlast)
        u, dt, A, B, C, dy, dlast = (s[None] for s in (u, dt, A, B, C, dy, dlast))
        return tuple(g[0] for g in _backward(u, dt, A, B, C, starts, dy, dlast))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, Any]:  # pyright: ignore
        """Members run side by side in one block, each with its own A."""
        return _Scan.apply(*all_members_first(info.batch_size, in_dims, inputs)), (0, 0, 0)


def _forward(u: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    y, last = torch.empty_like(u), torch.empty_like(h, memory_format=torch.contiguous_format)
    length = u.shape[2]
    starts = h.new_empty(-(-length // BLOCK), *h.shape)
    for rows in _tiles(u, A):
        state = h[:, rows]
        for i in range(len(starts)):
            steps = slice(i * BLOCK, (i + 1) * BLOCK)
            starts[i, :, rows] = state
            u_, dt_, B_ = (_cut(s, rows, steps) for s in (u, dt, B))
            _, states = _states(u_, dt_, B_, A, starts[i, :, rows])
            y[:, rows, steps] = _dot_n(_cut(C, rows, steps), states).movedim(0, 2)
            state = states[-1]
        last[:, rows] = state
    return y, last, starts


def _backward(
    u: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, starts: Tensor, dy: Tensor, dlast: Tensor
) -> tuple[Tensor, ...]:
    """Per block: rebuild h, run its gradient G backwards in time, read all other gradients off the two."""
    du, ddt, dB, dC = (torch.empty_like(s) for s in (u, dt, B, C))
    dA, dh = torch.zeros_like(A), torch.empty_like(dlast)
    for rows in _tiles(u, A):
        later = dlast[:, rows]  # what the block's last state owes to everything after it
        for i in reversed(range(len(starts))):
            steps = slice(i * BLOCK, (i + 1) * BLOCK)
            u_, dt_, B_, C_, dy_ = (_cut(s, rows, steps) for s in (u, dt, B, C, dy))
            start = starts[i, :, rows]
            decay, h = _states(u_, dt_, B_, A, start)
            G = _adjoint(decay, dy_, C_, later)
            du[:, rows, steps] = _dot_n(B_, G).movedim(0, 2)
            dB[:, rows, steps] = _dot_d(G, u_).movedim(0, 2)
            dC[:, rows, steps] = _dot_d(h, dy_).movedim(0, 2)
            G.mul_(decay)
            later = G[0].clone()
            G[1:].mul_(h[:-1])  # G is now the gradient of the exponent dt A
            G[0].mul_(start)
            dA += torch.mul(G, dt_[..., None, :], out=h).sum((0, 2))
            ddt[:, rows, steps] = G.mul_(A[:, None]).sum(-2).movedim(0, 2)
        dh[:, rows] = later
    return du, ddt, dA, dB, dC, dh


def _tiles(u: Tensor, A: Tensor) -> list[slice]:
    """The sequences that go through a block together."""
    sequences = u.shape[1]
    each = max(1, CACHED // (BLOCK * A.numel()))
    return [slice(lo, lo + each) for lo in range(0, sequences, each)]


def _cut(s: Tensor, rows: slice, steps: slice) -> Tensor:
    """[P B T X] -> [Q P b X], a view."""
    return s[:, rows, steps].movedim(2, 0)


def _states(u: Tensor, dt: Tensor, B: Tensor, A: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The block's decays and states, both [Q P b N D].  exp2 takes under half the time of exp on a CPU."""
    decay = torch.mul(dt[..., None, :], (A * LOG2_E)[:, None]).exp2_()
    h = torch.mul(u[..., None, :], B[..., None])
    for decay_t, h_t in zip(decay.unbind(0), h.unbind(0), strict=True):
        h_t.addcmul_(decay_t, state)
        state = h_t
    return decay, h


def _adjoint(decay: Tensor, dy: Tensor, C: Tensor, later: Tensor) -> Tensor:
    """dLoss/dh of each step, [Q P b N D]: its own output's share and the decayed share of the next step."""
    G = torch.mul(dy[..., None, :], C[..., None])
    steps, decays = G.unbind(0), decay.unbind(0)
    steps[-1].add_(later)
    for t in range(len(steps) - 1, 0, -1):
        steps[t - 1].addcmul_(decays[t], steps[t])
    return G


def _dot_n(s: Tensor, h: Tensor) -> Tensor:
    """[Q P b N], [Q P b N D] -> [Q P b D]."""
    return torch.bmm(s.reshape(-1, 1, s.shape[-1]), h.flatten(0, 2)).view(*h.shape[:3], h.shape[-1])


def _dot_d(h: Tensor, s: Tensor) -> Tensor:
    """[Q P b N D], [Q P b D] -> [Q P b N]."""
    return torch.bmm(s.reshape(-1, 1, s.shape[-1]), h.flatten(0, 2).mT).view(*h.shape[:4])
