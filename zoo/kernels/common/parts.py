"""Attention a part at a time: few weights at once, for the cache, and only keys that the part sees."""

from collections.abc import Iterator
from typing import NamedTuple


class Part(NamedTuple):
    """Sequences, queries of theirs, and the keys that some of them see."""

    rows: slice
    queries: slice
    keys: slice


def parts(count: int, length: int, size: int, at_once: int, keys: int | None = None) -> Iterator[Part]:
    """Yield `count` sequences of `length` queries, `size` queries and about `at_once` weights at a time.

    keys: how many there are, all of which every part sees; None: causal, the keys up to a part's last query.
    """
    rows = max(1, at_once // (size * (length if keys is None else keys)))
    for n in range(0, count, rows):
        for i in range(0, length, size):
            yield Part(slice(n, n + rows), slice(i, i + size), slice(0, i + size if keys is None else keys))
