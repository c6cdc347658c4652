"""Give one GPU of this machine to each worker: a cell that trains on a GPU sees only its own."""

import os
from collections.abc import Sequence

from zoo.config.cell import Cell

VISIBLE = "CUDA_VISIBLE_DEVICES"


def on_gpu(cell: Cell) -> bool:
    """Return whether the cell asks for a GPU."""
    return cell.trainer.accelerator == "gpu"


def cards() -> list[str]:
    """Return the cards by the names that CUDA_VISIBLE_DEVICES takes; if it is set, only those that it names.

    CUDA is not initialised here: a process forked afterwards could not use a card that is.
    """
    from torch import cuda

    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(i) for i in range(cuda.device_count())]


def least_used(names: Sequence[str], taken: Sequence[str | None]) -> str | None:
    """Return the card of the next worker, the first of those with the fewest workers; None: no cards."""
    return min(names, key=taken.count, default=None)


def see_only(card: str | None) -> None:
    """Hide all cards but one from a worker, before it touches any.  None changes nothing."""
    if card is not None:
        os.environ[VISIBLE] = card
