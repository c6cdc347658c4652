"""Right, and slow."""

import time

from torch import Tensor


def toy_slow(x: Tensor, weight: Tensor) -> Tensor:
    time.sleep(0.01)
    return (x @ weight).sin()


def unfit(x: Tensor, weight: Tensor) -> str | None:
    del weight
    return None if x.ndim == 3 else "x must be [B T C]"
