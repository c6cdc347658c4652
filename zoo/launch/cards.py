"""The cards of this machine, one for each worker: a cell that trains on a GPU sees its own alone."""

import os
from collections.abc import Iterable, Sequence

from zoo.config.cell import Cell

VISIBLE = "CUDA_VISIBLE_DEVICES"


def on_gpu(cell: Cell) -> bool:
    """Return whether the cell asks for a GPU."""
    return cell.trainer.accelerator == "gpu"


def cards() -> list[str]:
    """Return the cards by the names that CUDA_VISIBLE_DEVICES takes; those alone that it names already.

    No card is woken: a process that is forked afterwards could not use one that is.
    """
    from torch import cuda

    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(i) for i in range(cuda.device_count())]


def least_used(names: Sequence[str], taken: Iterable[str | None]) -> str | None:
    """The card of the next worker: the first of those that fewest workers have; None: there are none."""
    taken = list(taken)
    return min(names, key=taken.count, default=None)


def see_only(card: str | None) -> None:
    """Hide all cards but one from a worker, before it touches any.  None: as it is."""
    if card is not None:
        os.environ[VISIBLE] = card
