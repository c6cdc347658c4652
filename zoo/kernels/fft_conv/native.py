"""The convolution for a CPU in C, where sequence or filter is short; it is that of `short_conv`."""

from torch import Tensor

from zoo.kernels.short_conv import native

NATIVE, absent, unfit = native.NATIVE, native.absent, native.unfit


def fft_conv_native(u: Tensor, k: Tensor) -> Tensor:
    """Convolve tap by tap: O(T S) work."""
    return native.short_conv_native(u, k[:, : u.shape[1]].T)
