"""Right in its output, and wrong in a gradient."""

from torch import Tensor


def toy_backward(x: Tensor, weight: Tensor) -> Tensor:
    return (x @ (weight + weight.detach()) / 2).sin()


def unfit(x: Tensor, weight: Tensor) -> str | None:
    del weight
    return None if x.ndim == 3 else "x must be [B T C]"
