"""Right, and as fast as it can be."""

from torch import Tensor


def toy_right(x: Tensor, weight: Tensor) -> Tensor:
    return (x @ weight).sin()


def unfit(x: Tensor, weight: Tensor) -> str | None:
    del weight
    return None if x.ndim == 3 else "x must be [B T C]"
