"""Causal depthwise convolution with a filter as long as the sequence."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.fft_conv import native

OP = op(__name__, "reference", "fft", "native")

SHORT = 64  # tokens up to which matrices are as fast as transforms, and sums in C two to four times as fast


def fft_conv(
    u: Float[Tensor, "B T D"], k: Float[Tensor, "D S"], past: Float[Tensor, "B R D"] | None = None
) -> Float[Tensor, "B T D"]:
    """Convolve each channel, y[b, t, d] = sum over s of k[d, s] u[b, t - s, d]; `past` comes before u.

    Taps that reach beyond all inputs are not used.  One token after a past costs one dot product a channel.
    """
    if past is None:
        return _whole(u, k)
    inputs = torch.cat([past, u], dim=1)
    if u.shape[1] > 1:
        return _whole(inputs, k)[:, past.shape[1] :]
    taps = k[:, : inputs.shape[1]]
    recent = inputs[:, inputs.shape[1] - taps.shape[1] :].flip(1)
    return torch.einsum("bsd,ds->bd", recent, taps)[:, None]


def _whole(u: Tensor, k: Tensor) -> Tensor:
    if min(u.shape[1], k.shape[1]) <= SHORT and native.unfit(u, k) is None:
        return OP.run("native", u, k)
    return OP.run("reference" if u.shape[1] <= SHORT else "fft", u, k)
