"""Define the short convolution as a sum over taps."""

import torch
from jaxtyping import Float
from torch import Tensor


def short_conv_reference(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, tail: Tensor | None = None
) -> Tensor:
    """Sum the shifted inputs, each times its tap."""
    past, (taps, length) = with_tail(x, tail, len(weight) - 1), (len(weight), x.shape[1])
    y = torch.stack([weight[r] * past[:, taps - 1 - r :][:, :length] for r in range(taps)]).sum(0)
    return y if bias is None else y + bias


def with_tail(
    x: Float[Tensor, "B T C"], tail: Float[Tensor, "B K-1 C"] | None, reach: int
) -> Float[Tensor, "B K-1+T C"]:
    """Return x after its tail, zeros where that is None.  reach: K - 1."""
    tail = x.new_zeros(x.shape[0], reach, x.shape[2]) if tail is None else tail
    return torch.cat([tail, x], dim=1)
