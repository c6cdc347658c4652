"""Convolve each channel causally with a few taps, in front of many mixers; the caller keeps the tail.

B batch, T time, C channels, K taps.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.short_conv import short_conv


class ShortConv(nn.Module):
    """Convolve each channel by itself, causally: y_t = sum_{r<K} weight[r] * x_{t-r} (+ bias).

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
        """Return the outputs and the tail to go on from; `tail` None is the start of a sequence."""
        return short_conv(x, self.weight, self.bias, tail), self._tail_after(x, tail)

    def tail_size(self) -> int:
        """Count the scalars per sequence in the tail."""
        return self.weight.numel() - self.weight.shape[1]

    def _tail_after(self, x: Tensor, tail: Tensor | None) -> Tensor:
        missing = self.kernel_size - 1 - x.shape[1]
        if missing <= 0:
            return x[:, -missing:]
        before = x.new_zeros(x.shape[0], missing, x.shape[2]) if tail is None else tail[:, -missing:]
        return torch.cat([before, x], dim=1)
