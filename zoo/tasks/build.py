"""Build the task of a cell from its config."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from zoo.config.cell import Cell
from zoo.config.targets import make
from zoo.tasks.around import AllTokens, Limited
from zoo.tasks.base import Task


@lru_cache(maxsize=64)
def task_of(cell: Cell) -> Task:
    """Return the task of a cell, cached: using a task does not change it."""
    return build_task(cell.config)


def build_task(config: Mapping[str, Any]) -> Task:
    """Build the task of a cell; the config may score all tokens (loss=all) or limit it to max_examples."""
    task, most = make(config["task"], Task), config.get("max_examples")
    task = AllTokens(task) if config.get("loss") == "all" else task
    return task if most is None else Limited(task, most)
