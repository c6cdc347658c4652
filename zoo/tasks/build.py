"""The task of a cell, as its config has it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from zoo.config.cell import Cell
from zoo.config.targets import make
from zoo.tasks.around import AllTokens, Limited
from zoo.tasks.base import Task


@lru_cache(maxsize=64)
def task_of(cell: Cell) -> Task:
    """Return the task of a cell, built once: it holds nothing that use would change."""
    return build_task(cell.config)


def build_task(config: Mapping[str, Any]) -> Task:
    """Build the task of a cell, with all tokens scored or fewer examples where the config has it so."""
    task, most = make(config["task"], Task), config.get("max_examples")
    task = AllTokens(task) if config.get("loss") == "all" else task
    return task if most is None else Limited(task, most)
