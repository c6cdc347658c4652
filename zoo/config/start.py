"""`start`: the cell whose final weights another begins with, as the words of a command name it.

start=results/RUN, start=RUN          a finished cell: its folder, or its run id in the folder of records
start={experiment: NAME, lr: 0.001}   a cell by its words: it is trained first where its record is missing

A cell by its words has the seed, the folder of records, the trainer and the kernels of the one that starts
from it, unless its words say otherwise.  Either way its run id is part of the other's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.config.cell import Cell, hashed
from zoo.config.grids import as_text

DEFAULT = {"results": "results", "kernels": "auto", "trainer": "cpu"}  # of conf/config.yaml
Compose = Callable[[tuple[str, ...]], Cell]


def started(cell: Cell, compose: Compose) -> Cell:
    """The cell with `start` as the run id or folder of the other, and with that cell where words name it.

    ValueError, one line: it names no cell, or itself.
    """
    start = cell.config.get("start")
    if start is None:
        return replace(cell, config={key: value for key, value in cell.config.items() if key != "start"})
    if isinstance(start, Mapping) and start:
        parent = _composed(_words(start, cell), compose)
        # its point follows the other's point: so the cells of all seeds make one
        point = f"{cell.mixer}-{hashed([cell.point, parent.point])}"
        return replace(cell, config=cell.config | {"start": parent.run_id}, parent=parent, point=point)
    if isinstance(start, str) and re.fullmatch(r"\w[\w.=+-]*", Path(start).name):
        return cell
    raise ValueError(
        f"start (={start!r}) must be the folder of a finished cell, its run id, or {{key: value}} words of "
        "one, such as {experiment: mini, mixer: attention}."
    )


def _composed(words: tuple[str, ...], compose: Compose) -> Cell:
    try:
        return compose(words)
    except RecursionError:
        raise ValueError(f"start (={' '.join(words)}) starts from itself: leave out its own start.") from None
    except ValueError as error:
        raise ValueError("\n".join(f"start: {line}" for line in str(error).splitlines())) from None


def _words(start: Mapping[str, Any], cell: Cell) -> tuple[str, ...]:
    given = dict(_flat(start))
    inherited = {"results": cell.results, "kernels": cell.kernels, "trainer": cell.choices["trainer"]}
    inherited = {key: value for key, value in inherited.items() if DEFAULT[key] != value}
    inherited |= {"seed": cell.seed, "keep_weights": True}
    return tuple(f"{key}={_as_written(value)}" for key, value in (inherited | given).items())


def _as_written(value: Any) -> str:
    """A folder may be called anything."""
    if not isinstance(value, str) or re.fullmatch(r"[A-Za-z_][\w./-]*", value):
        return as_text(value)
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _flat(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """{optim: {max_epochs: 4}} is optim.max_epochs=4."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and f"{path}{key}" != "start":
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
