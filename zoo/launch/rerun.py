"""Run a done cell again (rerun=true): it trains beside its old record, and replaces it at the end.

    results/.rerun/<run_id>        the new attempt, a folder as any cell's; no reader looks there
    results/.rerun/.<run_id>.old   the old record, for the moment between two moves

The old record stays in its place until every cell of the command has a new one.  After a kill the same
command continues the new attempts; an attempt that other source code began is started over.
"""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from zoo.config.cell import Cell
from zoo.results import lease, store
from zoo.results.source import changed, source


def prepare(cell: Cell) -> None:
    """Prepare a cell's folder for `rerun`, before anything reads it.  ValueError: another process runs it."""
    _restore(cell)
    if not cell.rerun:
        return
    if someone := lease.holder(cell.place):
        raise ValueError(f"rerun=true: {cell.place} is run by {someone}: wait until it has ended.")
    if (
        cell.folder.is_dir()
        and not lease.holder(cell.folder)
        and changed(store.last_attempt(cell.folder), source(cell.config))
    ):
        shutil.rmtree(cell.folder)


def adopt(cells: Iterable[Cell]) -> None:
    """Replace the old records by the new ones."""
    for cell in cells:
        if not cell.rerun or not store.is_done(cell.folder):
            continue
        if cell.place.exists():
            cell.place.rename(_aside(cell))
        try:
            cell.folder.rename(cell.place)
        finally:
            _restore(cell)
        shutil.rmtree(_aside(cell), ignore_errors=True)
        with suppress(OSError):  # not empty: other attempts lie there
            cell.folder.parent.rmdir()


def _restore(cell: Cell) -> None:
    """Put the old record back where a kill came between the two moves."""
    if not cell.place.exists() and _aside(cell).is_dir():
        _aside(cell).rename(cell.place)


def _aside(cell: Cell) -> Path:
    return cell.stage / f".{cell.run_id}.old"
