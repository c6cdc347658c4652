"""Make one attempt at one cell, from an empty folder or a checkpoint to its record."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from zoo.common import interrupts
from zoo.common.checks import reason
from zoo.config.cell import Cell
from zoo.config.yaml_text import as_yaml
from zoo.results import lease, store
from zoo.results.atomic import is_full, room
from zoo.results.environment import machine
from zoo.results.outcome import Progress
from zoo.results.record import Outcome, TaskSettings, Who
from zoo.results.source import with_source


class CellFailed(Exception):
    """A cell raised; its traceback lies in error.txt."""

    def __init__(self, cell: Cell, reason: str) -> None:
        super().__init__(reason)
        self.cell, self.reason = cell, reason


@contextmanager
def failing(cell: Cell) -> Iterator[None]:
    """Write error.txt and raise CellFailed where a part of the cell raises or calls sys.exit."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if is_full(error):
            raise
        interrupts.check()  # an error with which a library answers an interrupt is no failure
        store.fail(cell.folder, traceback.format_exc())
        raise CellFailed(cell, reason(error)) from error


def run_cell(
    cell: Cell, report: Callable[[Progress], None], here: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Train and evaluate `cell`, from its checkpoint if there is one, and return its record.

    here: `machine()`, and maybe the `source` of the cell, from a process that knows them already.
    A done cell is only read.  CellFailed: the cell raised or called sys.exit; error.txt says where.
    KeyboardInterrupt (Ctrl-C, SIGTERM) and DiskFull leave the last checkpoint for the next attempt.
    """
    from zoo.training.train import train  # torch and Lightning: seconds, which a mistake should not cost

    folder = cell.folder
    if store.is_done(folder):
        return store.read(folder)
    with room(folder), lease.held(folder):
        if store.is_done(folder):
            return store.read(folder)
        environment = cell.words | with_source(here or machine(), cell.config)
        with failing(cell):
            store.begin(folder, as_yaml(cell.config), environment)
            outcome = train(cell, folder, report)
        finished = record(cell, outcome) | environment
        store.finish(folder, finished)
        return store.read(folder)


def record(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    """Return what result.json holds, without the machine and source that it ran on."""
    return {**who(cell), **outcome}


def who(cell: Cell) -> Who:
    """Return the part of the record that identifies the cell."""
    config = cell.config
    codec = config["model"].get("state_codec")
    return cast(Who, {"state_codec": codec} if codec else {}) | {
        "run_id": cell.run_id,
        "point": cell.point,
        "mixer": cell.mixer,
        "label": cell.about["label"],
        "family": cell.about["family"],
        "knob": cell.about["knob"],
        "mixer_settings": {k: v for k, v in cell.mixer_settings.items() if k != "_target_"},
        "task": cell.choices["task"],
        "task_settings": cast(
            TaskSettings,
            {k: v for k, v in config["task"].items() if not isinstance(v, list | dict)} | cell.unusual,
        ),
        "d_model": cell.d_model,
        "n_layers": config["n_layers"],
        "seed": cell.seed,
        "lr": config["lr"],
        "accelerator": cell.trainer.accelerator,
        "precision": cell.trainer.precision,
    }
