"""The diagonal recurrence with a step that is one fused multiply-add in place, forward and backward.

Inside, time is the first dimension, so that a step is contiguous.  The gradient is the same recurrence run
backwards: g_t, the gradient of h_t by way of everything from t on, is dh_t + decay_{t+1} g_{t+1}.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.folding import all_members_first


def diagonal_scan_in_place(decay: Tensor, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scan with one fused multiply-add a step."""
    first = torch.zeros_like(x[..., 0, :]) if state is None else state
    hs = _Scan.apply(decay, x, first)
    return hs, hs[..., -1, :]


class _Scan(Function):
    @staticmethod
    def forward(decay: Tensor, x: Tensor, state: Tensor) -> Tensor:  # pyright: ignore
        """Return all h."""
        hs = x.movedim(-2, 0).clone(memory_format=torch.contiguous_format)
        for decay_t, h_t in zip(decay.movedim(-2, 0), hs, strict=True):
            h_t.addcmul_(decay_t, state)
            state = h_t
        return hs.movedim(0, -2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        decay, _, state = inputs
        ctx.save_for_backward(decay, state, output)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Run the recurrence backwards."""
        decay, state, hs = ctx.saved_tensors
        owed = grad.movedim(-2, 0).clone(memory_format=torch.contiguous_format)
        decays = decay.movedim(-2, 0)
        for t in range(len(owed) - 1, 0, -1):
            owed[t - 1].addcmul_(decays[t], owed[t])
        before = torch.cat([state.unsqueeze(-2), hs[..., :-1, :]], dim=-2)
        d_x = owed.movedim(0, -2)
        return d_x * before, d_x, owed[0] * decays[0]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:  # pyright: ignore
        """Take members as one more leading dimension."""
        return _Scan.apply(*all_members_first(info.batch_size, in_dims, inputs)), 0  # pyright: ignore[reportReturnType]
