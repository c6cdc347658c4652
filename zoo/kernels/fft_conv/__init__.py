"""Causal depthwise convolution with a filter as long as the sequence."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.fft_conv.fft import fft_conv_fft
from zoo.kernels.fft_conv.reference import fft_conv_reference

SHORT = 64  # up to here the matrices are as quick as the transforms, and exactly causal


def fft_conv(u: Float[Tensor, "B T D"], k: Float[Tensor, "D S"]) -> Float[Tensor, "B T D"]:
    """y[b, t, d] = sum over s <= t of k[d, s] u[b, t - s, d].  Taps beyond the sequence are not used."""
    return (fft_conv_reference if u.shape[1] <= SHORT else fft_conv_fft)(u, k)


__all__ = ["fft_conv", "fft_conv_fft", "fft_conv_reference"]
