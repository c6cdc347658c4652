"""Causal depthwise convolution with a filter as long as the sequence."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference", "fft")

SHORT = 64  # up to here the matrices are as quick as the transforms, and exactly causal


def fft_conv(
    u: Float[Tensor, "B T D"], k: Float[Tensor, "D S"], past: Float[Tensor, "B R D"] | None = None
) -> Float[Tensor, "B T D"]:
    """Return y[b, t, d] = sum over s of k[d, s] u[b, t - s, d], where u goes on before its start with `past`.

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
    return OP.run("reference" if u.shape[1] <= SHORT else "fft", u, k)
