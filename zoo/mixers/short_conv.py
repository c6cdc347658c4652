"""The causal depthwise convolution in front of so many mixers, with its tail kept by the caller.

B batch, T time, C channels, K taps.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from zoo.checks import at_least

FEW_TAPS = 8  # up to here a sum of shifted products beats conv1d on a CPU, forward and backward


class ShortConv(nn.Module):
    """y_t = sum_{r<K} weight[r] * x_{t-r} (+ bias), each channel by itself.

    The tail is the last K-1 inputs, zeros at the start of a sequence, so that it always holds
    (K-1) * channels scalars: what one more token needs and no more.  (Published counts say K * channels:
    there the buffer has room for the new token too.)

    weight: [K C], weight[0] acts on the present input.  Drawn from U(-1/sqrt(K), 1/sqrt(K)) like the bias,
    as nn.Conv1d draws a depthwise filter's.
    """

    def __init__(self, channels: int, kernel_size: int, bias: bool = True) -> None:
        super().__init__()
        at_least("kernel_size", kernel_size, 1)
        self.kernel_size = kernel_size
        bound = kernel_size**-0.5
        self.weight = nn.Parameter(torch.empty(kernel_size, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def forward(
        self, x: Float[Tensor, "B T C"], tail: Float[Tensor, "B K-1 C"] | None = None
    ) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B K-1 C"]]:
        """The outputs and the tail to go on from; `tail` None is the start of a sequence."""
        if tail is None:
            tail = x.new_zeros(x.shape[0], self.kernel_size - 1, x.shape[2])
        past = torch.cat([tail, x], dim=1)
        convolve = self._shifted if self.kernel_size <= FEW_TAPS else self._grouped
        return convolve(past), past[:, x.shape[1] :]

    def tail_size(self) -> int:
        """Scalars per sequence in the tail."""
        return self.weight.numel() - self.weight.shape[1]

    def _shifted(self, past: Tensor) -> Tensor:
        bias = past.new_zeros(past.shape[2]) if self.bias is None else self.bias
        return _ShiftedSum.apply(past, self.weight, bias)  # pyright: ignore[reportReturnType]

    def _grouped(self, past: Tensor) -> Tensor:
        taps = self.weight.flip(0).T[:, None]  # conv1d correlates: its last tap acts on the present
        return F.conv1d(past.transpose(1, 2), taps, self.bias, groups=taps.shape[0]).transpose(1, 2)


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
