"""The short convolution as it is written: a sum over taps."""

import torch
from jaxtyping import Float
from torch import Tensor


def short_conv_reference(
    x: Float[Tensor, "B T C"],
    weight: Float[Tensor, "K C"],
    bias: Float[Tensor, "C"] | None = None,
    tail: Float[Tensor, "B K-1 C"] | None = None,
) -> Float[Tensor, "B T C"]:
    """What `zoo.kernels.short_conv` says."""
    past, (taps, length) = with_tail(x, tail, len(weight) - 1), (len(weight), x.shape[1])
    y = torch.stack([weight[r] * past[:, taps - 1 - r :][:, :length] for r in range(taps)]).sum(0)
    return y if bias is None else y + bias


def with_tail(
    x: Float[Tensor, "B T C"], tail: Float[Tensor, "B K-1 C"] | None, reach: int
) -> Float[Tensor, "B K-1+T C"]:
    """reach: K - 1."""
    tail = x.new_zeros(x.shape[0], reach, x.shape[2]) if tail is None else tail
    return torch.cat([tail, x], dim=1)
