"""Split a mixer's channels into heads whose width, not number, is given."""

from zoo.common.checks import at_least, multiple

HEAD_DIM = 64  # as published for Mamba-2, RWKV and their successors


def heads_of(name: str, width: int, head_dim: int | None) -> tuple[int, int]:
    """Return the number of heads and the channels of each (head_dim None: 64, or `width` where that is less).

    ValueError: head_dim does not divide `width`, which the error calls `name`.
    """
    head_dim = min(HEAD_DIM, width) if head_dim is None else head_dim
    at_least("head_dim", head_dim, 1)
    multiple(name, width, "head_dim", head_dim)
    return width // head_dim, head_dim
