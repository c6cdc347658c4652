"""Repeat keys, values or maps of a head for the group of query heads that share it."""

from jaxtyping import Shaped
from torch import Tensor


def per_query_head(per_group: Shaped[Tensor, "B G *X"], num_heads: int) -> Shaped[Tensor, "B H *X"]:
    """Repeat each of G heads for the H / G query heads that share it; head h reads floor(h G / H)."""
    repeats = num_heads // per_group.shape[1]
    return per_group if repeats == 1 else per_group.repeat_interleave(repeats, dim=1)
