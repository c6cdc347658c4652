"""Wrong in its output."""

from torch import Tensor


def toy_shifted(x: Tensor, weight: Tensor) -> Tensor:
    return (x @ weight).sin() * 1.001


def unfit(x: Tensor, weight: Tensor) -> str | None:
    del weight
    return None if x.ndim == 3 else "x must be [B T C]"
