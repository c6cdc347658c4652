"""Causal depthwise convolution in O(T log T), with a backward of its own.

Torch differentiates a real FFT through a full complex one.  A convolution's gradients are correlations, which
real transforms give at half the work.  Spectra are float32 at least, because they span many magnitudes.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.fft import irfft, rfft

from zoo.kernels.common.cached import tiles
from zoo.kernels.common.first_order import first_order

CACHED = 1 << 19  # scalars of a padded input that are processed at a time on a CPU


def fft_conv_fft(u: Tensor, k: Tensor) -> Tensor:
    """Convolve by real Fourier transforms."""
    return _FFTConv.apply(u, k[:, : u.shape[1]])


def fast_length(least: int) -> int:
    """Return the smallest even length >= `least` without prime factors above 5: other FFTs are slow."""
    length = least + least % 2
    while not _smooth(length):
        length += 2
    return length


def _smooth(n: int) -> bool:
    for prime in (2, 3, 5):
        while n % prime == 0:
            n //= prime
    return n == 1


class _FFTConv(Function):
    """Convolve over the last dimension, made contiguous: a copy costs less than strided transforms.

    A CPU takes some sequences at a time, so that their spectra never leave its cache.
    """

    @staticmethod
    def forward(u: Tensor, k: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Multiply spectra."""
        length = u.shape[1]
        n = fast_length(length + k.shape[1] - 1)
        y, filters = _channels_first(u), _spectrum(k, n)
        for rows in tiles(u, len(u), n * u.shape[2], CACHED):
            y[rows] = irfft(_spectrum(u[rows].mT, n).mul_(filters), n)[..., :length]
        return y.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore
        """Return the gradients, which are correlations."""
        u, k = ctx.saved_tensors
        length, taps = u.shape[1], k.shape[1]
        n = fast_length(length + taps - 1)
        du, filters = _channels_first(u), _spectrum(k, n).conj_physical_()
        dk = torch.zeros_like(filters)
        for rows in tiles(u, len(u), n * u.shape[2], CACHED):
            dy = _spectrum(grad[rows].mT, n)
            dk += _spectrum(u[rows].mT, n).conj_physical_().mul_(dy).sum(0)
            du[rows] = irfft(dy.mul_(filters), n)[..., :length]
        return du.mT, irfft(dk, n)[:, :taps].to(k.dtype)

    @staticmethod
    def vmap(  # pyright: ignore[reportIncompatibleMethodOverride]
        info: Any, in_dims: tuple[int | None, int | None], u: Tensor, k: Tensor
    ) -> tuple[Tensor, int]:
        """Take members as channels: each has its own filters."""
        members = info.batch_size
        u = u.unsqueeze(2).expand(-1, -1, members, -1) if in_dims[0] is None else u.movedim(in_dims[0], 2)
        k = k.expand(members, *k.shape) if in_dims[1] is None else k.movedim(in_dims[1], 0)
        y = _FFTConv.apply(u.flatten(2), k.flatten(0, 1))
        return y.unflatten(2, (members, -1)), 2


def _spectrum(x: Tensor, n: int) -> Tensor:
    return rfft(x.to(torch.promote_types(x.dtype, torch.float32)).contiguous(), n)


def _channels_first(u: Float[Tensor, "B T D"]) -> Float[Tensor, "B D T"]:
    return u.new_empty(u.shape[0], u.shape[2], u.shape[1])
