"""Turn a form's forward and backward passes into the op, for any dtypes, first states and populations.

P members of a population (1 without one), B sequences, T time, N state, D channels.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.folding import all_members_first

# forward: (x, dt: [P B T D], A: [P N D], B, C: [P B T N], h: [P B N D]) -> y, last h, what backward needs
# backward: (x, dt, A, B, C, what it needs, dy, dlast) -> the gradients of forward's inputs
Pass = Callable[..., tuple[Tensor, ...]]
Scan = Callable[..., tuple[Tensor, Tensor]]


def differentiable(forwards: Pass, backwards: Pass) -> Scan:
    """Make a form of the scan, with the state in float32 at least.

    Inside, N stands before D: the long dimension is the contiguous one, and broadcasts run along it.
    """

    class Passes(Function):
        @staticmethod
        def forward(*inputs: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
            """Run one member as a population of one."""
            if inputs[0].ndim == 4:
                return forwards(*inputs)
            y, last, starts = forwards(*(i[None] for i in inputs))
            return y[0], last[0], starts

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
            *saved, _ = inputs  # the kept states begin with the first state
            ctx.save_for_backward(*saved, output[2])
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        @first_order
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
            """Return the gradients of forward's inputs."""
            x, dt, A, B, C, starts = ctx.saved_tensors
            dy, dlast, _ = grads
            if x.ndim == 4:
                return backwards(x, dt, A, B, C, starts, dy, dlast)
            x, dt, A, B, C, dy, dlast = (s[None] for s in (x, dt, A, B, C, dy, dlast))
            return tuple(g[0] for g in backwards(x, dt, A, B, C, starts, dy, dlast))

        @staticmethod
        def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, Any]:  # pyright: ignore
            """Run members side by side, each with its own A."""
            return Passes.apply(*all_members_first(info.batch_size, in_dims, inputs)), (0, 0, 0)

    def scan(
        x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        if state is None:
            state = A.new_zeros(x.shape[0], *A.shape)
        wide = torch.promote_types(torch.promote_types(x.dtype, A.dtype), torch.float32)
        inputs = (s.to(wide) for s in (x, dt, A.mT, B, C, state.mT))
        y, last, _ = Passes.apply(*inputs)
        return y.to(x.dtype), last.mT

    return scan
