"""A decoder that turns copies of a row's vector, one for each answer, into one vector for each answer.

As in MAD's compression task (Poli et al. 2024), copy i gets the i-th sinusoidal position added and then
passes norm, Linear, GELU, norm, Linear, GELU, all as wide as the model.  MAD's head has a matrix and a bias
of its own; here the model's head is used.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.blocks.base import Block

SLOWEST = 10_000.0  # the longest wavelength, over 2 pi


class Decoder(nn.Module):
    """Two layers.  block: gives the kind of norm.  init_std: of the matrices; biases start at 0."""

    def __init__(self, block: Block, init_std: float) -> None:
        super().__init__()
        first, second = (nn.Linear(block.d_model, block.d_model) for _ in range(2))
        for layer in (first, second):
            nn.init.normal_(layer.weight, std=init_std)
            nn.init.zeros_(layer.bias)
        self.layers = nn.Sequential(block.new_norm(), first, nn.GELU(), block.new_norm(), second, nn.GELU())

    def forward(self, hidden: Float[Tensor, "B A D"]) -> Float[Tensor, "B A D"]:
        """Return a vector for each answer, from the row's vector and the answer's position."""
        places = sinusoids(hidden.shape[1], hidden.shape[2], hidden.device)
        return self.layers(hidden + places.to(hidden.dtype))


def sinusoids(count: int, width: int, device: torch.device) -> Float[Tensor, "A D"]:
    """Return a table whose row i has sines, then cosines, of i at wavelengths of 2 pi to 2 pi SLOWEST."""
    half = -(-width // 2)
    steps = torch.arange(half, device=device) / max(half - 1, 1)
    angles = torch.arange(count, device=device)[:, None] * SLOWEST**-steps
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :width]
