"""The short convolution for a CPU in C (native.c).

P members of a population (1 without one), B batch, T time, S = T or, with what came before, T + K - 1,
C channels, K taps.
"""

from pathlib import Path

import torch
from torch import Tensor

from zoo.kernels.common.native import Native, drawn, side_by_side
from zoo.kernels.short_conv.shifted import differentiable, short_conv_shifted


def unfit(x: Tensor, weight: Tensor, bias: Tensor | None = None, tail: Tensor | None = None) -> str | None:
    """Return why the C form cannot take these inputs; None: it can."""
    given = [s for s in (x, weight, bias, tail) if s is not None]
    if any(s.dtype != torch.float32 for s in given):
        return "native computes in float32"
    return NATIVE.unfit(*given)


def _forward(past: Tensor, weight: Tensor, bias: Tensor, lead: int) -> Tensor:
    past, weight, bias = (s.contiguous() for s in (past, weight, bias))
    P, rows, S, C = past.shape
    y, K = past.new_empty(P, rows, S - lead, C), weight.shape[1]

    def run(p: int, share: slice) -> None:
        x = past[p, share]
        NATIVE.library()("conv_forward", len(x), S - lead, C, K, lead, x, weight[p], bias[p], y[p, share])

    side_by_side(run, P, rows)
    return y


def _backward(past: Tensor, weight: Tensor, grad: Tensor, lead: int) -> tuple[Tensor, Tensor, Tensor]:
    past, weight, grad = (s.contiguous() for s in (past, weight, grad))
    (P, rows, S, C), K = past.shape, weight.shape[1]
    d_past, d_weight, d_bias = torch.empty_like(past), torch.zeros_like(weight), weight.new_zeros(P, C)

    def run(p: int, share: slice) -> tuple[int, Tensor, Tensor]:
        """Return the member, and this share of the gradients of its weight and bias."""
        x, dy, dx = past[p, share], grad[p, share], d_past[p, share]
        grads = torch.zeros_like(weight[p]), weight.new_zeros(C)
        sizes, scratch = (len(x), S - lead, C, K, lead), weight.new_empty((K + 1) * C)
        NATIVE.library()("conv_backward", *sizes, x, weight[p], dy, dx, *grads, scratch)
        return p, *grads

    for p, share_weight, share_bias in side_by_side(run, P, rows):
        d_weight[p] += share_weight
        d_bias[p] += share_bias
    return d_past, d_weight, d_bias


def _inputs() -> list[Tensor]:
    """Draw sizes that are no multiple of what a register holds."""
    B, T, C, K = 3, 9, 19, 4
    return drawn((B, T, C), (K, C), (C,), (B, K - 1, C))


short_conv_native = differentiable(_forward, _backward)
NATIVE = Native(Path(__file__).with_suffix(".c"), short_conv_native, short_conv_shifted, _inputs)
absent = NATIVE.absent
