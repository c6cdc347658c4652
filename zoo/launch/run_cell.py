"""One attempt at one cell, from an empty folder or a checkpoint to its record."""

import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from zoo import interrupts
from zoo.config.cell import Cell
from zoo.config.yaml_text import as_yaml
from zoo.results import lease, store
from zoo.results.atomic import DiskFull, room
from zoo.results.environment import machine
from zoo.results.outcome import Outcome, Progress, reason
from zoo.results.source import source


class CellFailed(Exception):
    """A cell raised; its traceback lies in error.txt."""

    def __init__(self, cell: Cell, reason: str) -> None:
        super().__init__(reason)
        self.cell, self.reason = cell, reason


def run_cell(
    cell: Cell, report: Callable[[Progress], None], here: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Train and evaluate `cell`, going on from its checkpoint if there is one, and record it.

    here: `machine()`, from a process that knows it already.
    A done cell is only read.  CellFailed: the cell raised or left by sys.exit; error.txt says where.
    KeyboardInterrupt (Ctrl-C, SIGTERM) and DiskFull leave the last checkpoint for the next attempt.
    """
    from zoo.training.train import train  # torch and Lightning: seconds, which a mistake should not cost

    folder = cell.folder
    if store.is_done(folder):
        return store.read(folder)
    with room(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with lease.held(folder):
        if store.is_done(folder):
            return store.read(folder)
        environment = cell.words | {"source": source(cell.config)} | (here or machine())
        store.begin(folder, as_yaml(cell.config), environment)
        try:
            with room(folder):
                outcome = train(cell, folder, report)
        except DiskFull:
            raise
        except (Exception, SystemExit) as error:
            interrupts.check()  # some library's answer to an interrupt is no failure
            store.fail(folder, traceback.format_exc())
            raise CellFailed(cell, reason(error)) from error
        store.finish(folder, record(cell, outcome) | environment)
        return store.read(folder)


def record(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    """What result.json holds, but for where it ran: who the cell is, what it scored, what it remembers."""
    config = cell.config
    outcome_ = asdict(outcome)
    scores, coverage = outcome_.pop("scores"), outcome_.pop("coverage") or {}
    groups = outcome_.pop("groups")
    model, mixer = outcome_.pop("state_model"), outcome_.pop("state_mixer")
    return {
        "run_id": cell.run_id,
        "point": cell.point,
        "mixer": cell.mixer,
        **{key: cell.about[key] for key in ("label", "family", "knob")},
        "mixer_settings": {k: v for k, v in cell.mixer_settings.items() if k != "_target_"},
        "task": cell.choices["task"],
        "task_settings": {k: v for k, v in config["task"].items() if not isinstance(v, list | dict)},
        **{key: config[key] for key in ("d_model", "n_layers", "seed", "lr")},
        "accelerator": cell.trainer.accelerator,
        "precision": cell.trainer.precision,
        **{f"state_{key}": value for key, value in model.items()},
        **{f"state_mixer_{key}": value for key, value in mixer.items()},
        **outcome_,
        "slices": _slices(cell, scores, coverage),
        "groups": [
            {"split": "test", "slice": name} | counts for name, kinds in groups.items() for counts in kinds
        ],
    }


def _slices(
    cell: Cell, scores: dict[str, dict[str, Any]], coverage: dict[str, float]
) -> list[dict[str, Any]]:
    """One entry for each slice of valid and test; without scores where the cell diverged before any."""
    from zoo.instantiate import task_of  # torch: seconds, as above

    task = task_of(cell)
    empty = {
        "accuracy": None,
        "row_accuracy": None,
        "exact_rows": None,
        "loss": None,
        "answers": 0,
        "rows": 0,
    }
    return [
        {"split": split, "slice": segment.slice, "coverage": coverage.get(segment.name, 1.0)}
        | (scores.get(split, {}).get(segment.name) or empty)
        for split in ("valid", "test")
        for segment in task.segments(split)
    ]
