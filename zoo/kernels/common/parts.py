"""Cut attention into parts that hold few weights, for the cache, and read only the keys that they see."""

from collections.abc import Iterator
from typing import NamedTuple


class Part(NamedTuple):
    """Some sequences, some of their queries, and the keys that any of these queries sees."""

    rows: slice
    queries: slice
    keys: slice


def parts(count: int, length: int, size: int, at_once: int, keys: int | None = None) -> Iterator[Part]:
    """Yield parts of `count` sequences of `length` queries: `size` queries and about `at_once` weights each.

    keys: the number of keys, all of which every part sees; None: causal, the keys up to a part's last query.
    """
    rows = max(1, at_once // (size * (length if keys is None else keys)))
    for n in range(0, count, rows):
        for i in range(0, length, size):
            yield Part(slice(n, n + rows), slice(i, i + size), slice(0, i + size if keys is None else keys))
