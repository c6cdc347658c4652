"""The short convolution in torch: few taps as a sum of shifted products, many by conv1d.

P members of a population (1 without one), B batch, T time, S = T or, with what came before, T + K - 1,
C channels, K taps.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.cached import tiles
from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.folding import all_members_first
from zoo.kernels.short_conv.reference import with_tail

CACHED = 1 << 18  # scalars of x that are processed at a time on a CPU
Conv = Callable[..., Tensor]


def short_conv_grouped(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, tail: Tensor | None = None
) -> Tensor:
    """Convolve by torch's conv1d."""
    taps = weight.flip(0).T[:, None]  # conv1d correlates: its last tap acts on the present
    past = with_tail(x, tail, len(weight) - 1).transpose(1, 2)
    return F.conv1d(past, taps, bias, groups=len(taps)).transpose(1, 2)


def differentiable(forwards: Callable[..., Tensor], backwards: Callable[..., tuple[Tensor, ...]]) -> Conv:
    """Make a form of the convolution from its two passes: any populations, with or without bias and tail.

    forwards: (past: [P B S C], weight: [P K C], bias: [P C], lead: tokens of S before the first output) -> y.
    backwards: (past, weight, dy, lead) -> the gradients of past, weight and bias.
    """

    class Passes(Function):
        @staticmethod
        def forward(past: Tensor, weight: Tensor, bias: Tensor, lead: int) -> Tensor:  # pyright: ignore
            """Run one member as a population of one."""
            if past.ndim == 4:
                return forwards(past, weight, bias, lead)
            return forwards(past[None], weight[None], bias[None], lead)[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            del output
            ctx.lead = inputs[3]
            ctx.save_for_backward(*inputs[:2])

        @staticmethod
        @first_order
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
            """Return the gradients of past, weight and bias."""
            past, weight = ctx.saved_tensors
            if past.ndim == 4:
                return *backwards(past, weight, grad, ctx.lead), None
            return *(d[0] for d in backwards(past[None], weight[None], grad[None], ctx.lead)), None

        @staticmethod
        def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:  # pyright: ignore
            """Take members side by side, each with its own taps."""
            members = all_members_first(info.batch_size, in_dims[:3], inputs[:3])
            return Passes.apply(*members, inputs[3]), 0  # pyright: ignore[reportReturnType]

    def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, tail: Tensor | None = None) -> Tensor:
        bias = weight.new_zeros(x.shape[2]) if bias is None else bias
        lead = 0 if tail is None else len(weight) - 1
        past = x if tail is None else with_tail(x, tail, lead)
        return Passes.apply(past, weight, bias, lead)  # pyright: ignore

    return conv


def _forward(past: Tensor, weight: Tensor, bias: Tensor, lead: int) -> Tensor:
    """Convolve some sequences at a time on a CPU, so that their sums stay in its cache from tap to tap."""
    length = past.shape[2] - lead
    y = torch.empty_like(past[:, :, :length], dtype=torch.result_type(past, weight))
    for rows in tiles(past, past.shape[1], past.shape[0] * past[0, 0].numel(), CACHED):
        y[:, rows] = bias[:, None, None]
        for r, at, then in reversed(_taps(weight, length, lead)):
            y[:, rows, at].addcmul_(past[:, rows, then], weight[:, r, None, None])
    return y


def _backward(past: Tensor, weight: Tensor, grad: Tensor, lead: int) -> tuple[Tensor, Tensor, Tensor]:
    d_past = torch.empty_like(past, dtype=torch.result_type(grad, weight))
    d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(weight[:, 0])
    for rows in tiles(past, past.shape[1], past.shape[0] * past[0, 0].numel(), CACHED):
        d_past[:, rows] = 0
        d_bias += grad[:, rows].sum((1, 2))
        for r, at, then in _taps(weight, grad.shape[2], lead):
            d_past[:, rows, then].addcmul_(grad[:, rows, at], weight[:, r, None, None])
            d_weight[:, r] += (grad[:, rows, at] * past[:, rows, then]).sum((1, 2))
    return d_past, d_weight, d_bias


def _taps(weight: Tensor, length: int, lead: int) -> list[tuple[int, slice, slice]]:
    """Return for each tap its r, the outputs that it adds to, and the places in the past that it reads."""
    first = [(r, max(0, r - lead)) for r in range(min(weight.shape[1], length + lead))]
    return [(r, slice(lo, length), slice(lo + lead - r, length + lead - r)) for r, lo in first]


short_conv_shifted = differentiable(_forward, _backward)
