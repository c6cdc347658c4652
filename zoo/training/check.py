"""Refuse a cell that cannot train before any work, and without Lightning, which takes seconds to import."""

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from zoo.common.checks import violation
from zoo.config.cell import Cell
from zoo.mixers import size_formula
from zoo.model import SequenceModel, outline
from zoo.results.record import COLUMNS
from zoo.tasks.base import SPLITS, Task
from zoo.tasks.build import task_of
from zoo.training.lr_schedule import check_schedule
from zoo.training.optimizer import check_optimizer

MOST_NUMBERS = 2**36  # of a model: a quarter of a terabyte in float32, without its gradients


def check(cell: Cell) -> None:
    """Raise ValueError, one line, if the cell cannot train.  No weight is made: the model is on "meta"."""
    _ = cell.lr, cell.optim, cell.trainer  # each raises where its settings are wrong
    check_logger(cell)
    if cell.trainer.callbacks:
        from zoo.training.callbacks import make_callbacks  # Lightning: only imported where one is named

        make_callbacks(cell)
    task = task_of(cell)
    _check_slices(task)
    model = outline(cell)
    _check_state(cell, task, model)
    check_optimizer(cell.optim, model)
    check_schedule(cell.optim)
    numbers = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    if numbers > MOST_NUMBERS:
        raise ValueError(f"the model has {numbers:.1e} weights and constants: {MOST_NUMBERS:.1e} at most.")


def _check_state(cell: Cell, task: Task, model: SequenceModel) -> None:
    """Refuse a sequence that is too long, or a state whose size raises or is not what its formula gives."""
    lengths = sorted({segment.seq_len for split in SPLITS for segment in task.segments(split)})
    model.check_length(lengths[-1])
    model.state_size(lengths[-1])
    formula, mixer = cell.about.get("state"), model.mixers[cell.chosen_layer]
    if formula is None or cell.mixer_settings not in cell.layers:
        return
    if wrong := violation(size_formula.mistakes(formula, mixer, lengths)):
        raise ValueError(f"about.state (={formula}) of mixer={cell.mixer} must be the state's size: {wrong}.")


def check_logger(cell: Cell) -> None:
    """Raise ValueError, one line, if the package that the logger `requires` is missing, or a W&B login is."""
    settings = cell.logger
    choice, package = cell.choices["logger"], settings.get("requires")
    if package and importlib.util.find_spec(package) is None:
        install = settings.get("install", package)
        raise ValueError(f"logger={choice} needs {package}: pip install '{install}', or use logger=csv.")
    if logger_kind(settings) == "WandbLogger" and not settings.get("offline"):
        _check_wandb(choice)


def logger_kind(settings: Mapping[str, Any]) -> str | None:
    """Return the name of the logger's class; None: csv, which has no class."""
    target = settings.get("_target_")
    return None if target is None else str(target).rpartition(".")[2]


def _check_wandb(choice: str) -> None:
    """Refuse W&B without a key, since it would ask for one on the terminal, once per cell."""
    import wandb

    if os.environ.get("WANDB_MODE", "online") == "online" and not wandb.login(prompt=False, verify=False):
        raise ValueError(
            f"logger={choice} needs a W&B key: run `wandb login`, or give logger.offline=true "
            "(`wandb sync` uploads such runs later)."
        )


def _check_slices(task: Task) -> None:
    """Refuse slices with equal names, a column's key or a chance beyond 1: no record could hold them."""
    for split in ("valid", "test"):
        for segment in task.segments(split):
            if not 0 < (chance := task.chance(segment)) <= 1:
                raise ValueError(f"task.chance (={chance}) of {segment.name} must be in (0, 1]: mend it.")
        names = [segment.name for segment in task.segments(split)]
        for key in {key for segment in task.segments(split) for key in segment.slice if key in COLUMNS}:
            raise ValueError(f"task.{split} has slices with {key!r}, a column of every record: rename it.")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"task.{split} has two segments of {name}: make them one.")
