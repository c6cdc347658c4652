"""Tasks of one segment in every split, and their rows."""

from collections.abc import Callable
from typing import Any

from zoo.tasks.base import Batch, Task


def task(kind: Callable[..., Task], load: dict[str, int], **settings: Any) -> Task:
    segment = [load | {"num_examples": 10}]
    mixture = {"data": "fixed", "order": "sequential"} | dict.fromkeys(("train", "valid", "test"), segment)
    return kind(seed=0, **mixture, **settings)


def rows(kind: Callable[..., Task], load: dict[str, int], count: int, **settings: Any) -> Batch:
    return task(kind, load, **settings).sample("train", 0, range(count))


def says(message: str, words: str) -> bool:
    """Whether a message of one line has these words; ".." stands for any others between them."""
    rest = message
    for part in words.split(".."):
        _, there, rest = rest.partition(part)
        if not there:
            return False
    return "\n" not in message
