"""Group the cells that may train as one: those that differ in learning rate, weight decay and seed only."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from typing_extensions import TypedDict

from zoo.config.cell import Cell
from zoo.results import store
from zoo.results.checked import mistake
from zoo.results.record import Count, RunId

AUTO = "auto"
MOST = {"cpu": 16, "gpu": 64}  # the most members that `population=auto` puts together


@dataclass(frozen=True)
class Group:
    """Cells for one process: a population, the rest of one, or a single cell.

    why_alone: why a cell that could have been in a population trains alone; "" otherwise.
    measured: whether a population of such cells has been measured and pays.
    among: run ids, in order, of the population that the cells were begun in; (): they have not begun.
    """

    cells: tuple[Cell, ...]
    why_alone: str = ""
    measured: bool = False
    among: tuple[str, ...] = ()

    @cached_property
    def likeness(self) -> str:
        """Return the likeness of the first cell, which all cells of the group share."""
        return likeness(self.cells[0])

    @property
    def to_measure(self) -> bool:
        """Return whether the group must still be measured before it trains as one."""
        return self.cells[0].population == AUTO and not self.alone and not self.measured

    @property
    def whole(self) -> tuple[str, ...]:
        """Return the run ids of the whole population, including members that have ended."""
        return self.among or tuple(cell.run_id for cell in self.cells)

    @property
    def alone(self) -> bool:
        """Return whether one cell trains by itself."""
        return len(self.whole) == 1


@dataclass(frozen=True)
class Apart:
    """Answer of a worker that a group is to train in parts instead.

    parts: indices of cells in the group; each part gets a process of its own.
    ruling: the same holds for all cells of this likeness.  continued: each part keeps its old population.
    """

    parts: tuple[tuple[int, ...], ...]
    why: str
    ruling: bool = False
    continued: bool = False


@dataclass(frozen=True)
class Together:
    """The message, sent once, that a population was measured and pays."""


def groups(cells: Sequence[Cell], workers: int) -> Iterator[Group]:
    """Yield groups that hold each cell once: first those that go on, then new ones by their first cell.

    A cell with a checkpoint goes on as it was begun, alone or in its population.  In float32 the last bits of
    a member depend on how many cells train as one; this way a sweep that is interrupted and run again gets
    the same numbers.  With population=1 every cell is alone.  New groups have `population` cells: removing a
    whole group changes no other.  Under `auto` the sizes are even, and every worker gets a group.
    """
    continued, new = _earlier([cell for cell in cells if cell.population != 1])
    yield from continued
    alike: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.population == 1:
            alike[cell.run_id].append(cell)
        elif cell.run_id in new:
            alike[likeness(cell)].append(cell)
    for same in alike.values():
        most = _most(same, -(-len(cells) // workers))
        yield from (Group(tuple(same[i : i + most])) for i in range(0, len(same), most))


def in_words(cells: Sequence[Cell], workers: int) -> str:
    """Return in words the populations that these cells would form; "" where there is none."""
    made = [*groups(cells, workers)]
    sizes = Counter(len(group.cells) for group in made if not group.alone)
    if not sizes:
        return ""
    each = ", ".join(f"{count} of {size}" for size, count in sorted(sizes.items(), reverse=True))
    alone = sum(group.alone for group in made)
    rest = f" and {alone} {'cell' if alone == 1 else 'cells'} alone" if alone else ""
    measured = ", each if it is measured to pay" if any(group.to_measure for group in made) else ""
    return f"populations: {each}{rest}{measured}"


def _most(same: Sequence[Cell], share: int) -> int:
    """Return the size of a new group of alike cells.  share: the cells of the sweep per worker."""
    allowed = same[0].population
    if isinstance(allowed, int):
        return allowed
    count = -(-len(same) // min(MOST[same[0].trainer.accelerator], share))
    return -(-len(same) // count)


def _earlier(cells: Sequence[Cell]) -> tuple[list[Group], set[str]]:
    """Return the groups of cells that go on, and the run ids of the cells that have not begun."""
    populations_of = {cell.run_id: _population_of(cell) for cell in cells}
    populations = dict.fromkeys(among for among in populations_of.values() if len(among) > 1)
    named = {run_id: among for among in populations for run_id in among}  # some were killed before their note
    parts: dict[tuple[str, ...], list[Cell]] = {among: [] for among in populations}
    going_on = []
    for cell in cells:
        among = populations_of[cell.run_id] or named.get(cell.run_id, ())
        if among in parts:
            parts[among].append(cell)
        elif among:
            going_on.append(Group((cell,), _noted(cell).get("why_alone", "it was begun alone")))
    for among, part in parts.items():
        part.sort(key=lambda cell: among.index(cell.run_id))
        going_on.append(Group(tuple(part), measured=True, among=among))
    continued = {cell.run_id for group in going_on for cell in group.cells}
    return going_on, populations_of.keys() - continued


Noted = TypedDict(  # of a population, in env.json
    "Noted", {"with": list[RunId], "member": Count, "why_alone": str}, total=False
)


def _population_of(cell: Cell) -> tuple[str, ...]:
    """Return the run ids, in order, of the cell and those it was begun with; (): the cell has not begun."""
    noted = _noted(cell)
    others, member = noted.get("with"), noted.get("member")
    if others and member is not None:
        return (*others[:member], cell.run_id, *others[member:])
    return (cell.run_id,) if (cell.folder / "last.ckpt").exists() else ()


def _noted(cell: Cell) -> dict[str, Any]:
    """Read what the last attempt noted of its population; {} where that is missing or damaged."""
    noted = store.last_attempt(cell.folder).get("population")
    return {} if noted is None or mistake(noted, Noted) else noted


def left(group: Group, answer: Apart) -> list[Group]:
    """Return the groups that an answer makes of a group, without the cells that have a record."""
    parts = [[group.cells[i] for i in part] for part in answer.parts]
    todo = [tuple(cell for cell in part if not store.is_done(cell.folder)) for part in parts]
    if answer.continued:
        return [Group(part, measured=True, among=group.whole) for part in todo if part]
    return [Group(part, answer.why if len(part) == 1 else "", group.measured) for part in todo if part]


def likeness(cell: Cell) -> str:
    """Return a text that is equal for cells that may train as one.

    The config's own `seed` and the task's may differ; a seed set in the mixer makes another mixer.  Where the
    order of the training segments is drawn, the task's seed must be equal, because in one step all members
    see sequences of one length.  Callbacks, adapters, rounded states, and loggers other than csv allow only
    one cell per process.
    """
    config: dict[str, Any] = {
        k: v for k, v in cell.config.items() if k not in ("lr", "seed", "results", "start")
    }
    config["task"], config["optim"] = dict(config["task"]), dict(config["optim"])
    if config["task"].get("order") != "shuffled":
        config["task"].pop("seed", None)
    config["optim"].pop("weight_decay")
    other_logger, rounded = config["logger"].get("_target_"), config["model"].get("state_codec")
    if other_logger is not None or config["trainer"].get("callbacks") or cell.adaptation or rounded:
        config["run_id"] = cell.run_id
    return json.dumps(config, sort_keys=True)
