"""Define the causal depthwise convolution by one lower-triangular matrix a channel."""

import torch
from jaxtyping import Float
from torch import Tensor


def fft_conv_reference(u: Tensor, k: Tensor) -> Tensor:
    """Multiply with matrices [D T T]: O(T^2 D) memory.  Exactly causal; an FFT is causal up to rounding."""
    return torch.einsum("bsd,dst->btd", u, _toeplitz(k, u.shape[1]))


def _toeplitz(k: Float[Tensor, "D S"], length: int) -> Float[Tensor, "D T T"]:
    """Return [d, s, t] = k[d, t - s], zero above.  A row is the one before, moved by one: pad and reshape."""
    k = k[:, :length]
    row = torch.cat([k, k.new_zeros(k.shape[0], 2 * length - k.shape[1])], dim=1)
    rows = row[:, None].expand(-1, length, -1).reshape(row.shape[0], -1)[:, :-length]
    return rows.reshape(row.shape[0], length, 2 * length - 1)[:, :, :length]
