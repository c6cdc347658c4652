"""Convert the weights of a mixer's inner model between matrices, to compute with, and one row, to keep.

B batch, H heads, I inputs and O outputs of a layer, P scalars of the model.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor


def packed(weights: Iterable[Float[Tensor, "*any I O"]]) -> Float[Tensor, "*any P"]:
    """Return all weights side by side."""
    return torch.cat([weight.flatten(-2) for weight in weights], dim=-1)


def unpacked(
    rows: Float[Tensor, "B H P"], learned: Iterable[Float[Tensor, "H I O"]]
) -> tuple[Float[Tensor, "B H I O"], ...]:
    """Return the weights that a row holds, in the shapes of the learned ones."""
    shapes = [weight.shape[1:] for weight in learned]
    parts = rows.split([shape.numel() for shape in shapes], dim=-1)
    return tuple(part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True))
