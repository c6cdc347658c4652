"""Tasks of one segment in every split, and their rows."""

from collections.abc import Callable
from typing import Any

from zoo.tasks.base import SPLITS, Batch, Task


def lengths(seq_len: int, **more: int) -> dict[str, int]:
    return {"seq_len": seq_len} | more


def pairs(seq_len: int, n: int) -> dict[str, int]:
    return lengths(seq_len, num_kv_pairs=n)


def task(kind: Callable[..., Task], load: dict[str, int], **settings: Any) -> Task:
    segments = {split: [{"num_examples": 10} | load] for split in SPLITS}
    return kind(**{"seed": 0, "data": "fixed", "order": "sequential"} | segments | settings)


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
