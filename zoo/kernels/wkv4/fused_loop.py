"""RWKV-4's average, with all work that is not sequential done for all tokens at once.

The running maximum is one cumulative maximum.  Divided by its exp, each sum is h_t = d_t h_{t-1} + x_t
with d_t <= 1: one fused multiply-add a token in place, in forward and in backward.

The maximum cancels in every output, so no gradient passes through it.  The gradients of aa and bb are right
for their use, times exp(pp); taken alone they differ from the reference's by what passes through pp there.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.folding import all_members_first
from zoo.kernels.wkv4.reference import Averages, no_past

TIME = -3


def wkv4_fused_loop(
    k: Tensor, v: Tensor, log_decay: Tensor, bonus: Tensor, state: Averages | None = None
) -> tuple[Tensor, Averages]:
    """Average with one fused multiply-add a token."""
    aa, bb, pp = no_past(k) if state is None else state
    after = _largest(k.detach(), log_decay.detach(), pp.detach())
    before = torch.cat([pp[:, None], after[:, :-1]], dim=1)
    decay, new = torch.exp(before + log_decay - after), torch.exp(k - after)
    start = torch.stack([aa, bb], dim=-2)
    sums, last = _Sums.apply(decay[..., None, :], torch.stack([new * v, new], dim=-2), start)
    present = bonus + k
    top = torch.maximum(before, present).detach()
    past, now = torch.exp(before - top), torch.exp(present - top)
    aa_before, bb_before = sums.unbind(-2)
    y = (past * aa_before + now * v) / (past * bb_before + now)
    aa, bb = last.unbind(-2)
    return y, Averages(aa, bb, after[:, -1])


def _largest(
    k: Float[Tensor, "B T D"], log_decay: Float[Tensor, "D"], pp: Float[Tensor, "B D"]
) -> Float[Tensor, "B T D"]:
    """Return pp after each token: the largest exponent so far, with the decay up to that token."""
    age = log_decay * torch.arange(1, k.shape[1] + 1, device=k.device)[:, None]
    return torch.maximum((k - age).cummax(dim=1).values, pp[:, None]) + age


class _Sums(Function):
    """Map (d: [*P B T 1 D], x: [*P B T 2 D], start: [*P B 2 D]) to h before each token, and the last h."""

    @staticmethod
    def forward(d: Tensor, x: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore
        """Run the recurrence in place."""
        before = torch.cat([start.unsqueeze(TIME), x], dim=TIME)
        steps = before.unbind(TIME)
        for t, d_t in enumerate(d.unbind(TIME)):
            steps[t + 1].addcmul_(d_t, steps[t])
        return before.narrow(TIME, 0, x.shape[TIME]), steps[-1].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(inputs[0], output[0])

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Run the recurrence backwards."""
        d, before = ctx.saved_tensors
        d_before, d_last = grads
        owed = torch.cat([d_before, d_last.unsqueeze(TIME)], dim=TIME)  # each h's gradient by all after it
        steps = owed.unbind(TIME)
        for t, d_t in reversed(list(enumerate(d.unbind(TIME)))):
            steps[t].addcmul_(d_t, steps[t + 1])
        d_x = owed.narrow(TIME, 1, before.shape[TIME])
        return (d_x * before).sum(-2, keepdim=True), d_x, steps[0]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, Any]:  # pyright: ignore
        """Take the members as one more leading dimension."""
        return _Sums.apply(*all_members_first(info.batch_size, in_dims, inputs)), (0, 0)
