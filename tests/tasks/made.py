"""Build tasks of one segment in every split, and their rows."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from zoo.tasks.base import SPLITS, Batch, Task

Kind = TypeVar("Kind", bound=Task)


def lengths(seq_len: int, **more: int) -> dict[str, int]:
    return {"seq_len": seq_len} | more


def pairs(seq_len: int, n: int) -> dict[str, int]:
    return lengths(seq_len, num_kv_pairs=n)


def task(kind: Callable[..., Kind], load: dict[str, int], **settings: Any) -> Kind:
    segments = {split: [{"num_examples": 10} | load] for split in SPLITS}
    return kind(**{"seed": 0, "data": "fixed", "order": "sequential"} | segments | settings)


def rows(kind: Callable[..., Task], load: dict[str, int], count: int, **settings: Any) -> Batch:
    return task(kind, load, **settings).sample("train", 0, range(count))


def one_line(words: str) -> str:
    """Return a pattern of a message of one line with these words; ".." stands for any others between them."""
    return rf"\A.*{'.*'.join(map(re.escape, words.split('..')))}.*\Z"
