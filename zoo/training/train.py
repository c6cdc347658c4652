"""Train, validate and test one cell."""

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

from zoo.config.cell import Cell
from zoo.config.settings import OptimConfig, TrainerConfig
from zoo.evaluation.decode_speed import decode_tokens_per_second
from zoo.evaluation.flops import cost, working_parameters
from zoo.evaluation.scores import rows_at_once
from zoo.instantiate import build_task
from zoo.kernels.choice import Choice, contradiction, kernels, lacking
from zoo.kernels.served import check_served
from zoo.model import SequenceModel, model_from_config
from zoo.results import weights
from zoo.results.metrics_csv import write_csv
from zoo.results.outcome import Outcome, Progress
from zoo.state import peak
from zoo.tasks.base import SPLITS, Task
from zoo.tasks.batches import BatchStream
from zoo.tasks.coverage import coverage
from zoo.training import checkpoint
from zoo.training.lightning_module import Learner
from zoo.training.loggers import check_logger, closed, make_logger
from zoo.training.loop import fit, test
from zoo.training.process import surroundings
from zoo.training.step import uncompilable
from zoo.training.train_state import Diverged, Journal, Position
from zoo.training.truth import check_said

CHECKPOINT, METRICS = "last.ckpt", "metrics.csv"
MOST_NUMBERS = 2**36  # of a model: a quarter of a terabyte, without its gradients


def check(cell: Cell) -> None:
    """ValueError, in one line, for a cell that cannot train.  No weight is made: the model is on "meta"."""
    _ = cell.lr, cell.optim, cell.trainer  # each says what is wrong with it
    check_logger(cell)
    task = build_task(cell.config)
    _check_slices(task)
    with torch.device("meta"):
        model = model_from_config(cell.config, task.vocab_size)
    model.check_length(_longest(task, *SPLITS))
    numbers = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    if numbers > MOST_NUMBERS:
        raise ValueError(
            f"the model has {numbers:.1e} parameters and constants, at most {MOST_NUMBERS:.1e} can be."
        )


def _check_slices(task: Task) -> None:
    """Two segments of one name would be one row of the record, with two scores."""
    for split in ("valid", "test"):
        names = [segment.name for segment in task.segments(split)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"task.{split} has two segments of {name}: make them one.")


def train(cell: Cell, folder: Path, report: Callable[[Progress], None] | None = None) -> Outcome:
    """Train the cell, or what is left of it after `folder`/last.ckpt; writes that and metrics.csv there.

    An Outcome means that training and the test ran to their end, or that the loss stopped being finite.
    Raises ValueError (a cell that cannot train, a damaged checkpoint; before any step) and KeyboardInterrupt
    (Ctrl-C or SIGTERM; the last step is in the checkpoint, and the next call goes on from it).
    """
    with prepared(cell) as (trainer, choice):
        begun = begin(cell, folder, report)
        count_earlier(choice, begun)
        learner = Learner(
            begun.model,
            begun.journal,
            step=trainer.step,
            pace=trainer,
            save=lambda state, form: save(begun, begun.model.state_dict(), state, choice.record(), form),
            optimizer_state=begun.optimizer_state,
        )
        with closed(begun.journal.loggers):
            diverged = _run(learner, lightning(trainer, begun.journal, folder))
        write_csv(folder / METRICS, begun.journal.position.rows)
        return outcome(begun, diverged, choice.record(), learner.form)


@contextmanager
def prepared(cell: Cell) -> Iterator[tuple[TrainerConfig, Choice]]:
    """The process made ready for the cell, for as long as the context lasts.  ValueError: it cannot be."""
    trainer = cell.trainer
    refused = contradiction(cell.kernels, trainer.accelerator, trainer.step) or unavailable(cell)
    if refused:
        raise ValueError(refused)
    with surroundings(trainer.threads), kernels(cell.kernels) as choice:
        yield trainer, choice


def unavailable(cell: Cell) -> str | None:
    """What this machine lacks for the cell, in one line; None: nothing."""
    if cell.trainer.device == "cuda" and not torch.cuda.is_available():
        return "trainer.accelerator (=gpu) needs a CUDA device, and torch sees none: use trainer=cpu."
    return lacking(cell.kernels) or (uncompilable() if cell.trainer.step == "compile" else None)


@dataclass
class Begun:
    """A cell before its first step, or its next.  optimizer_state: of its checkpoint, where it has one."""

    cell: Cell
    folder: Path
    task: Task
    model: SequenceModel
    journal: Journal
    optimizer_state: dict[str, Any] | None


def begin(cell: Cell, folder: Path, report: Callable[[Progress], None] | None = None) -> Begun:
    """Build the cell, and go to where its checkpoint stands.

    ValueError: that is damaged or another's; the kernels asked for cannot be had; before the first step, a
    mixer is not what it says.
    """
    saved = checkpoint.load(folder / CHECKPOINT, cell.run_id)
    optim, trainer = cell.optim, cell.trainer
    task = build_task(cell.config)
    model = model_from_config(cell.config, task.vocab_size)
    model = model.to(weights_dtype(trainer))  # that of the checkpoint
    model.bf16_head = trainer.precision == "bf16-head"
    model.check_length(_longest(task, *SPLITS))
    check_served(cell.kernels, lambda: _glance(model, task))
    if saved is None:
        _check_said(cell, model, task)
    logger = make_logger(cell, folder)
    journal = Journal(
        _streams(task, optim, trainer),
        optim,
        lr=cell.lr,
        seed=cell.seed,
        report=report or (lambda progress: None),
        loggers=[logger] if logger else [],
    )
    if saved is None:
        return Begun(cell, folder, task, model, journal, None)
    model.load_state_dict(saved["model"])
    journal.resume(Position(**saved["position"]))
    return Begun(cell, folder, task, model, journal, saved["optimizer"])


def count_earlier(choice: Choice, begun: Begun) -> None:
    """What ran before the checkpoint has run too."""
    for op, names in begun.journal.position.kernels.items():
        choice.ran.setdefault(op, set()).update(names.split("+"))


_seen: set[str] = set()  # points whose models have been seen: a population begins many of one


def _check_said(cell: Cell, model: SequenceModel, task: Task) -> None:
    if not cell.point or cell.point not in _seen:
        check_said(model, _shortest(task), _longest(task, *SPLITS))
        _seen.add(cell.point)


@torch.no_grad()
def _glance(model: SequenceModel, task: Task) -> None:
    """Over one row of no interest."""
    model.eval()(torch.zeros(1, _shortest(task), dtype=torch.long))
    model.train()


def weights_dtype(trainer: TrainerConfig) -> torch.dtype:
    """Of the weights."""
    return torch.float64 if trainer.precision == "64-true" else torch.float32


def _shortest(task: Task) -> int:
    return min(segment.seq_len for segment in task.segments("train"))


def _longest(task: Task, *splits: Any) -> int:
    return max(segment.seq_len for split in splits for segment in task.segments(split))


def _streams(task: Task, optim: OptimConfig, trainer: TrainerConfig) -> dict[str, BatchStream]:
    at_once = rows_at_once(optim.eval_batch_size, _longest(task, "valid", "test"), trainer.device)
    sizes = {"train": optim.batch_size, "valid": at_once, "test": at_once}
    return {split: BatchStream(task, split, sizes[split], trainer.device) for split in SPLITS}


def lightning(trainer: TrainerConfig, journal: Journal, folder: Path) -> pl.Trainer:
    """A trainer for the epochs that are left; checkpoints, metrics and the display are not its job here."""
    return pl.Trainer(
        accelerator=trainer.accelerator,
        devices=1,
        precision=trainer.layers,
        max_epochs=journal.epochs_left,
        logger=journal.loggers or False,
        default_root_dir=folder,
        plugins=[LightningEnvironment()],  # one library requeues on a cluster, and it is not this one
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        inference_mode=False,  # a mixer may keep what it made in evaluation for training
    )


def _run(learner: Learner, trainer: pl.Trainer) -> Diverged | None:
    journal = learner.journal
    try:
        fit(learner, trainer, journal.streams["valid"])
        test(learner, trainer, journal.streams["test"])
    except Diverged as diverged:
        return diverged
    return None


State = dict[str, Any]


def save(begun: Begun, model: State, optimizer: State | None, ran: dict[str, str], form: str | None) -> None:
    """The checkpoint, with these states, and metrics.csv.  ran, form: as `outcome` takes them."""
    begun.journal.wall_seconds()
    position = begun.journal.position
    position.kernels, position.step_form = ran, form or position.step_form
    contents = {"position": asdict(position), "model": model, "optimizer": optimizer}
    checkpoint.save(begun.folder / CHECKPOINT, begun.cell.run_id, contents)
    write_csv(begun.folder / METRICS, position.rows)


def outcome(begun: Begun, diverged: Diverged | None, ran: dict[str, str], form: str | None = None) -> Outcome:
    """ran: which implementation of each op.  form: of the steps; None: this run took none."""
    model, journal, task, position = begun.model, begun.journal, begun.task, begun.journal.position
    seq_len, device = _longest(task, "test"), begun.cell.trainer.device
    model.to(device)  # Lightning leaves it on the CPU
    return Outcome(
        status="diverged" if diverged else "ok",
        diverged_step=diverged.step if diverged else None,
        diverged_lr=diverged.lr if diverged else None,
        steps=position.step,
        total_steps=journal.total_steps,
        epochs=position.step // len(journal.streams["train"]),
        early_stopped=position.early_stopped,
        scores={} if diverged else {"valid": position.valid_scores, "test": journal.test},
        distances={} if diverged else journal.distances,
        coverage=None if model.sees_all(seq_len) else coverage(task, "test", model.visible),
        state_seq_len=seq_len,
        state_model=peak(model.state_size, seq_len),
        state_mixer=peak(model.mixers[begun.cell.chosen_layer].state_size, seq_len),
        layers=[type(mixer).__name__ for mixer in model.mixers],
        parameters=sum(p.numel() for p in model.parameters()),
        parameters_without_embedding=working_parameters(model),
        causal=model.causal,
        exact_decode=model.exact_decode,
        wall_seconds=journal.wall_seconds(),
        examples_per_second=position.examples / position.train_seconds if position.examples else None,
        decode_tokens_per_second=None if diverged else decode_tokens_per_second(model, seq_len, device),
        operations=cost(begun.cell, model, task).operations,
        peak_memory_bytes=_peak_memory(device),
        kernels=ran,
        step_form=form or position.step_form,
        weights=weights.keep(not diverged and begun.cell.keep_weights, begun.folder, model),
    )


def _peak_memory(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
