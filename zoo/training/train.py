"""Train, validate and test one cell."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from zoo.adaptation.recipe import adapt
from zoo.config.cell import Cell
from zoo.config.settings import OptimConfig, TrainerConfig
from zoo.evaluation.scores import rows_at_once
from zoo.instantiate import task_of
from zoo.kernels.choice import Choice, contradiction, kernels
from zoo.kernels.served import check_served
from zoo.model import SequenceModel, build_model
from zoo.results.outcome import Progress
from zoo.results.record import Outcome
from zoo.tasks.base import SPLITS, Task
from zoo.tasks.batches import BatchStream
from zoo.training import checkpoint, start
from zoo.training.callbacks import make_callbacks
from zoo.training.check import longest, unavailable
from zoo.training.lightning_module import Learner
from zoo.training.loggers import make_logger
from zoo.training.loop import run
from zoo.training.process import surroundings
from zoo.training.train_state import CHECKPOINT, Begun, Position
from zoo.training.truth import check_said


def train(cell: Cell, folder: Path, report: Callable[[Progress], None] | None = None) -> Outcome:
    """Train the cell, or what is left of it after `folder`/last.ckpt; writes that and metrics.csv there.

    An Outcome means that training and the test ran to their end, or that the loss stopped being finite.
    Raises ValueError (a cell that cannot train, a damaged checkpoint; before any step) and KeyboardInterrupt
    (Ctrl-C or SIGTERM; the last step is in the checkpoint, and the next call goes on from it).
    """
    outcomes: list[Outcome] = []
    with prepared(cell) as (trainer, choice):
        begun = begin(cell, folder, report)
        begun.callbacks = make_callbacks(cell)
        count_earlier(choice, begun)
        run(Learner(begun, trainer, choice.record, lambda _, outcome: outcomes.append(outcome)))
    return outcomes[0]


@contextmanager
def prepared(cell: Cell) -> Iterator[tuple[TrainerConfig, Choice]]:
    """The process made ready for the cell, for as long as the context lasts.  ValueError: it cannot be."""
    trainer = cell.trainer
    refused = contradiction(cell.kernels, trainer.accelerator, trainer.step) or unavailable(cell)
    if refused:
        raise ValueError(refused)
    with surroundings(trainer.threads), kernels(cell.kernels) as choice:
        yield trainer, choice


def begin(cell: Cell, folder: Path, report: Callable[[Progress], None] | None = None) -> Begun:
    """Build the cell, and go to where its checkpoint stands.

    ValueError: that is damaged or another's; the kernels asked for cannot be had; before the first step, a
    mixer is not what it says.
    """
    began = time.perf_counter()
    saved = checkpoint.load(folder / CHECKPOINT, cell.run_id)
    optim, trainer = cell.optim, cell.trainer
    task = task_of(cell)
    model = build_model(cell)
    model.bf16_head = trainer.precision == "bf16-head"
    model.check_length(longest(task, *SPLITS))
    check_served(cell.kernels, lambda: _glance(model, task))
    fresh = start.begin(cell, model) if saved is None and cell.start else []
    if saved is None:
        _check_said(cell, model, task)
    if cell.adaptation:
        adapt(model, cell.adaptation, cell.seed, saved["position"].get("fresh", []) if saved else fresh)
    logger = make_logger(cell, folder)
    begun = Begun(
        cell,
        folder,
        task,
        model,
        _streams(task, optim, trainer),
        began,
        report or (lambda progress: None),
        loggers=[logger] if logger else [],
    )
    if saved is not None:
        model.load_state_dict(saved["model"])
        begun.position, begun.optimizer_state = Position(**saved["position"]), saved["optimizer"]
        begun.tell(f"resumed at step {begun.position.step}")
    elif cell.start:
        begun.position.fresh = fresh
        begun.tell(f"started from {cell.start}{', fresh: ' + ', '.join(fresh) if fresh else ''}")
    return begun


def count_earlier(choice: Choice, begun: Begun) -> None:
    """What ran before the checkpoint has run too."""
    for op, names in begun.position.kernels.items():
        choice.ran.setdefault(op, set()).update(names.split("+"))


_seen: set[str] = set()  # points whose models have been seen: a population begins many of one


def _check_said(cell: Cell, model: SequenceModel, task: Task) -> None:
    if not cell.point or cell.point not in _seen:
        check_said(model, _shortest(task), longest(task, *SPLITS))
        _seen.add(cell.point)


@torch.no_grad()
def _glance(model: SequenceModel, task: Task) -> None:
    """Over one row of no interest."""
    model.eval()(torch.zeros(1, _shortest(task), dtype=torch.long))
    model.train()


def _shortest(task: Task) -> int:
    return min(segment.seq_len for segment in task.segments("train"))


def _streams(task: Task, optim: OptimConfig, trainer: TrainerConfig) -> dict[str, BatchStream]:
    at_once = rows_at_once(optim.eval_batch_size, longest(task, "valid", "test"), trainer.device)
    sizes = {"train": optim.batch_size, "valid": at_once, "test": at_once}
    return {split: BatchStream(task, split, sizes[split], trainer.device) for split in SPLITS}
