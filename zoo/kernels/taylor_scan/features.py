"""Features whose products are the weights 1 + u + u^2/2, u = q . k / sqrt C: each x_i x_j once.

T time, C channels of a query or key, F = 1 + C + C (C + 1) / 2 features; any leading dimensions.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def num_features(channels: int) -> int:
    """Return F."""
    return 1 + channels + channels * (channels + 1) // 2


def pair_index(channels: int, device: torch.device | None = None) -> Int[Tensor, "P"]:
    """Return the places of the products of channels i < j among all C x C."""
    i, j = torch.triu_indices(channels, channels, offset=1, device=device)
    return i * channels + j


def taylor_features(x: Float[Tensor, "... T C"], pairs: Int[Tensor, "P"]) -> Float[Tensor, "... T F"]:
    """Return [1, x_i / C^(1/4), x_i^2 / sqrt(2 C), x_i x_j / sqrt C for i < j].  pairs: `pair_index(C)`."""
    x = x / x.shape[-1] ** 0.25
    products = (x[..., :, None] * x[..., None, :]).flatten(-2).index_select(-1, pairs)
    return torch.cat([torch.ones_like(x[..., :1]), x, x.square() * 0.5**0.5, products], dim=-1)
