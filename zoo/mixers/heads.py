"""Split a mixer's channels into heads whose width, not number, is given."""

from zoo.common.checks import at_least, multiple

HEAD_DIM = 64  # the published one of Mamba-2, RWKV and those after them


def heads_of(name: str, width: int, head_dim: int | None) -> tuple[int, int]:
    """Return the number of heads and their channels (None: 64, or all of `width` where that is less).

    name: of `width`, for the refusal of a head_dim that does not divide it.
    """
    head_dim = min(HEAD_DIM, width) if head_dim is None else head_dim
    at_least("head_dim", head_dim, 1)
    multiple(name, width, "head_dim", head_dim)
    return width // head_dim, head_dim
