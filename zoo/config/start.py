"""Read `start`, which names the cell whose final weights another cell begins with.

start=results/RUN, start=RUN          a finished cell: its folder, or its run id in the folder of records
start={experiment: NAME, lr: 0.001}   a cell by its words: it is trained first where its record is missing

A cell by its words gets the seed, the results folder, the trainer and the kernels of the cell that starts
from it, unless its words set them.  In both forms the start's run id is part of the other cell's run id.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.config.cell import Cell, hashed
from zoo.config.grids import as_text

DEFAULT = {"results": "results", "kernels": "auto", "trainer": "cpu"}  # as in conf/config.yaml
Compose = Callable[[tuple[str, ...]], Cell]


def started(cell: Cell, compose: Compose) -> Cell:
    """Return the cell with `start` as a run id or folder, and with a start given by words as its parent.

    ValueError, one line: `start` names no cell, or the cell itself.
    """
    start = cell.config.get("start")
    if start is None:
        return replace(cell, config={key: value for key, value in cell.config.items() if key != "start"})
    if isinstance(start, Mapping) and start:
        parent = _composed(_words(start, cell), compose)
        # the point contains the other's point, so that the cells of all seeds make one point
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
    """Return a value as a word, in quotes if need be: a folder may have any name."""
    if not isinstance(value, str) or re.fullmatch(r"[A-Za-z_][\w./-]*", value):
        return as_text(value)
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _flat(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys with their values: {optim: {max_epochs: 4}} is optim.max_epochs=4."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and f"{path}{key}" != "start":
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
