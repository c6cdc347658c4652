"""Which cells may train as one: those that differ in learning rate, weight decay and seed alone."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from zoo.cell import Cell

AUTO = "auto"
MOST = {"cpu": 16, "gpu": 64}  # members that `population=auto` puts together


@dataclass(frozen=True)
class Group:
    """Cells for one process: a population, or one alone.

    why_alone: where a population was in question.  measured: that it pays has been seen on cells like these.
    """

    cells: tuple[Cell, ...]
    why_alone: str = ""
    measured: bool = False

    @cached_property
    def likeness(self) -> str:
        return likeness(self.cells[0])

    @property
    def automatic(self) -> bool:
        return self.cells[0].config["population"] == AUTO


@dataclass(frozen=True)
class Apart:
    """What a process answers that will not train its group as it is.

    parts: numbers of cells in the group; each part is for a process of its own.
    ruling: the same holds for all cells of this likeness.
    """

    parts: tuple[tuple[int, ...], ...]
    why: str
    ruling: bool = False


@dataclass(frozen=True)
class Together:
    """What a process says once that it has measured that a population pays."""


def groups(cells: Sequence[Cell], workers: int) -> Iterator[Group]:
    """Every cell in one group, in the order of each group's first.

    Sizes are even and at most what `population` allows; under `auto` no worker is left without a group.
    """
    alike: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        alike[cell.run_id if cell.config["population"] == 1 else likeness(cell)].append(cell)
    for same in alike.values():
        allowed = same[0].config["population"]
        if allowed == AUTO:
            allowed = min(MOST[same[0].config["trainer"]["accelerator"]], -(-len(cells) // workers))
        yield from parted(same, allowed)


def parted(cells: Sequence[Cell], most: int) -> Iterator[Group]:
    count = -(-len(cells) // most)
    edges = [len(cells) * i // count for i in range(count + 1)]
    for start, stop in pairwise(edges):
        yield Group(tuple(cells[start:stop]))


def singles(group: Group, why: str) -> list[Group]:
    return [Group((cell,), why) for cell in group.cells]


def likeness(cell: Cell) -> str:
    """Equal for cells that may train as one.

    The seed is free in the config's own `seed` and in the task's: a mixer that is given one of its own is
    another mixer.  Where the order of the training segments is drawn, the task's seed must be equal, because
    in one step all members see sequences of one length.  A logger other than csv follows one cell a process.
    """
    config: dict[str, Any] = {k: v for k, v in cell.config.items() if k not in ("lr", "seed", "results")}
    config["task"], config["optim"] = dict(config["task"]), dict(config["optim"])
    if config["task"].get("order") != "shuffled":
        config["task"].pop("seed", None)
    config["optim"].pop("weight_decay")
    if config["logger"].get("_target_") is not None:
        config["run_id"] = cell.run_id
    return json.dumps(config, sort_keys=True)
