"""Build a cell from its config: task, model and streams of batches."""

import time
from collections.abc import Callable
from pathlib import Path

from zoo.config.cell import Cell
from zoo.evaluation.scores import rows_at_once
from zoo.model import model_of
from zoo.results.outcome import Progress
from zoo.results.record import Outcome
from zoo.tasks.base import SPLITS
from zoo.tasks.batches import BatchStream, longest, shortest
from zoo.tasks.build import task_of
from zoo.training.runs import Run


def build(
    cell: Cell,
    folder: Path,
    report: Callable[[Progress], None] | None = None,
    finished: Callable[[Outcome], None] | None = None,
) -> Run:
    """Build the task, the model with its initial weights, and the streams of batches of a cell.

    report: called with the progress of training.  finished: called with the outcome as soon as there is one.
    """
    began = time.perf_counter()
    task, optim, trainer = task_of(cell), cell.optim, cell.trainer
    at_once = rows_at_once(optim.eval_batch_size, longest(task, "valid", "test"), trainer.device)
    sizes = {"train": optim.batch_size, "valid": at_once, "test": at_once}
    streams = {split: BatchStream(task, split, sizes[split], trainer.device) for split in SPLITS}
    model = model_of(cell, task)
    model.bf16_head = trainer.precision == "bf16-head"
    lengths = shortest(task, "train"), longest(task, *SPLITS)
    return Run(cell, folder, task, model, streams, began, lengths, report or _ignore, finished or _ignore)


def _ignore(report: object) -> None:
    del report
