"""Right, and other in its last bit each time."""

import itertools

from torch import Tensor

CALLS = itertools.count()


def toy_bits(x: Tensor, weight: Tensor) -> Tensor:
    return (x @ weight).sin() * (1 + 1e-6 * (next(CALLS) % 7))


def unfit(x: Tensor, weight: Tensor) -> str | None:
    del weight
    return None if x.ndim == 3 else "x must be [B T C]"
