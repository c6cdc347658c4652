"""The short convolution in torch: few taps as a sum of shifted products, many by conv1d.

B batch, T time, S = T + K - 1 with what came before, C channels, K taps.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.short_conv.reference import with_tail


def short_conv_shifted(
    x: Float[Tensor, "B T C"],
    weight: Float[Tensor, "K C"],
    bias: Float[Tensor, "C"] | None = None,
    tail: Float[Tensor, "B K-1 C"] | None = None,
) -> Float[Tensor, "B T C"]:
    """As short_conv_reference."""
    bias = x.new_zeros(x.shape[2]) if bias is None else bias
    return _ShiftedSum.apply(with_tail(x, tail, len(weight) - 1), weight, bias)  # pyright: ignore


def short_conv_grouped(
    x: Float[Tensor, "B T C"],
    weight: Float[Tensor, "K C"],
    bias: Float[Tensor, "C"] | None = None,
    tail: Float[Tensor, "B K-1 C"] | None = None,
) -> Float[Tensor, "B T C"]:
    """As short_conv_reference."""
    taps = weight.flip(0).T[:, None]  # conv1d correlates: its last tap acts on the present
    past = with_tail(x, tail, len(weight) - 1).transpose(1, 2)
    return F.conv1d(past, taps, bias, groups=len(taps)).transpose(1, 2)


class _ShiftedSum(Function):
    """y_t = bias + sum_r weight_r * past_{t+K-1-r}; autograd would zero, fill and add a tensor a tap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(past: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # pyright: ignore
        taps = _windows(past, len(weight), past.shape[1] - len(weight) + 1)
        y = torch.addcmul(bias, taps[0], weight[-1])
        for tap, w in zip(taps[1:], weight.flip(0)[1:], strict=True):
            y = torch.addcmul(y, tap, w)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        del output
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore
        past, weight = ctx.saved_tensors
        reach = len(weight) - 1
        later = _windows(F.pad(grad, (0, 0, reach, reach)), len(weight), past.shape[1])
        d_past = later[0] * weight[0]
        for shifted, w in zip(later[1:], weight[1:], strict=True):
            d_past = torch.addcmul(d_past, shifted, w)
        taps = reversed(_windows(past, len(weight), grad.shape[1]))
        d_weight = torch.stack([(grad * tap).sum((0, 1)) for tap in taps])  # quicker here than einsum
        return d_past, d_weight, grad.sum((0, 1))


def _windows(x: Float[Tensor, "B S C"], count: int, length: int) -> list[Float[Tensor, "B T C"]]:
    """The `count` views of `length` steps that begin at 0, 1, 2, ..."""
    return [x[:, start : start + length] for start in range(count)]
