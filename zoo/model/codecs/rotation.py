"""An orthonormal rotation that spreads what stands out over all channels."""

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor


@cache
def hadamard(size: int) -> Float[Tensor, "size size"]:
    """Return a symmetric orthonormal matrix, which is its own inverse: Sylvester's where size is a power of
    two, else blocks of them, the largest first (21 = 16 + 4 + 1)."""
    powers = [2**i for i in reversed(range(size.bit_length())) if size & 2**i]
    return torch.block_diag(*(_sylvester(power) for power in powers))


def _sylvester(size: int) -> Float[Tensor, "size size"]:
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix * size**-0.5


def rotated(x: Float[Tensor, "*any"], axis: int) -> Float[Tensor, "*any"]:
    """Return `x` with one axis rotated; twice gives `x` again, up to rounding."""
    matrix = hadamard(x.shape[axis]).to(x.device)
    with torch.autocast(x.device.type, enabled=False):
        return (x.movedim(axis, -1) @ matrix).movedim(-1, axis)
