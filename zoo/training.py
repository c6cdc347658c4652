"""Train, validate and test one cell."""

import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

from zoo import checkpoint
from zoo.batches import BatchStream
from zoo.cell import Cell
from zoo.checks import one_of
from zoo.cost import cost, working_parameters
from zoo.decoding import decode_tokens_per_second
from zoo.kernels.choice import contradiction, kernels, lacking
from zoo.learner import Diverged, Learner, Position
from zoo.loggers import check_logger, make_logger
from zoo.metrics import write_csv
from zoo.model import build_task, model_from_config
from zoo.optimizer import OptimConfig, check_lr, settings, whole
from zoo.outcome import Outcome, Progress
from zoo.state import peak
from zoo.surroundings import surroundings
from zoo.tasks.base import SPLITS, Task
from zoo.tasks.coverage import coverage

CHECKPOINT, METRICS = "last.ckpt", "metrics.csv"


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """conf/trainer/*.yaml, checked.  threads: of the CPU, for this cell.  checkpoint_every: in steps."""

    accelerator: Literal["cpu", "gpu"]
    precision: Literal["32-true", "64-true", "bf16-mixed"]
    threads: int
    checkpoint_every: int

    def __post_init__(self) -> None:
        one_of("trainer.accelerator", self.accelerator, ("cpu", "gpu"))
        one_of("trainer.precision", self.precision, ("32-true", "64-true", "bf16-mixed"))
        whole("trainer.threads", self.threads)
        whole("trainer.checkpoint_every", self.checkpoint_every)

    @property
    def device(self) -> str:
        return "cuda" if self.accelerator == "gpu" else "cpu"


def check(cell: Cell) -> None:
    """ValueError, in one line, for a cell that cannot train.  No weight is made: the model is on "meta"."""
    _settings(cell)
    check_logger(cell)
    task = build_task(cell.config)
    with torch.device("meta"):
        model = model_from_config(cell.config, task.vocab_size)
    model.check_length(_longest(task, *SPLITS))


def train(cell: Cell, folder: Path, report: Callable[[Progress], None] | None = None) -> Outcome:
    """Train the cell, or what is left of it after `folder`/last.ckpt; writes that and metrics.csv there.

    An Outcome means that training and the test ran to their end, or that the loss stopped being finite.
    Raises ValueError (a cell that cannot train, a damaged checkpoint; before any step) and KeyboardInterrupt
    (Ctrl-C or SIGTERM; the checkpoint stays, and the next call goes on from it).
    """
    optim, trainer = _settings(cell)
    if trainer.device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "trainer.accelerator (=gpu) needs a CUDA device, and torch sees none: use trainer=cpu."
        )
    refused = contradiction(cell.config["kernels"], trainer.accelerator) or lacking(cell.config["kernels"])
    if refused:
        raise ValueError(refused)
    saved = checkpoint.load(folder / CHECKPOINT, cell.run_id)
    with surroundings(trainer.threads), kernels(cell.config["kernels"]) as choice:
        task = build_task(cell.config)
        model = model_from_config(cell.config, task.vocab_size)
        model.check_length(_longest(task, *SPLITS))
        learner = Learner(
            model,
            _streams(task, optim, trainer),
            optim,
            lr=cell.config["lr"],
            seed=cell.config["seed"],
            checkpoint_every=trainer.checkpoint_every,
            save=lambda learner: _save(learner, cell, folder),
            report=report or (lambda progress: None),
        )
        if saved is not None:
            _restore(learner, saved)
        diverged = _run(learner, _lightning(learner, cell, trainer, folder))
        write_csv(folder / METRICS, learner.position.rows)
        return _outcome(learner, cell, task, diverged, choice.record())


def _settings(cell: Cell) -> tuple[OptimConfig, TrainerConfig]:
    check_lr(cell.config["lr"])
    return (
        settings("optim", OptimConfig, cell.config["optim"]),
        settings("trainer", TrainerConfig, cell.config["trainer"]),
    )


def _longest(task: Task, *splits: Any) -> int:
    return max(segment.seq_len for split in splits for segment in task.segments(split))


def _streams(task: Task, optim: OptimConfig, trainer: TrainerConfig) -> dict[str, BatchStream]:
    sizes = {"train": optim.batch_size, "valid": optim.eval_batch_size, "test": optim.eval_batch_size}
    return {split: BatchStream(task, split, sizes[split], trainer.device) for split in SPLITS}


def _lightning(learner: Learner, cell: Cell, trainer: TrainerConfig, folder: Path) -> pl.Trainer:
    """A trainer for the epochs that are left; checkpoints, metrics and the display are not its job here."""
    done = learner.position.step // len(learner.streams["train"])
    return pl.Trainer(
        accelerator=trainer.accelerator,
        devices=1,
        precision=trainer.precision,
        max_epochs=learner.config.max_epochs - done,
        logger=make_logger(cell, folder) or False,
        default_root_dir=folder,
        plugins=[LightningEnvironment()],  # one library requeues on a cluster, and it is not this one
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        inference_mode=False,  # a mixer may keep what it made in evaluation for training
    )


def _run(learner: Learner, trainer: pl.Trainer) -> Diverged | None:
    position = learner.position
    try:
        if position.step < learner.total_steps and not position.early_stopped:
            trainer.fit(learner, Remaining(learner), learner.streams["valid"])
        trainer.test(learner, learner.streams["test"], verbose=False)
    except Diverged as diverged:
        return diverged
    return None


class Remaining:
    """What Lightning iterates over: each time, the rest of the epoch at hand, however long."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def __iter__(self) -> Any:
        return self.learner.batches()


def _save(learner: Learner, cell: Cell, folder: Path) -> None:
    position = learner.position
    position.wall_seconds = learner.wall_seconds()
    contents = {
        "position": asdict(position),
        "model": learner.model.state_dict(),
        "optimizer": learner.optimizers(use_pl_optimizer=False).state_dict(),  # pyright: ignore
    }
    checkpoint.save(folder / CHECKPOINT, cell.run_id, contents)
    write_csv(folder / METRICS, position.rows)


def _restore(learner: Learner, saved: dict[str, Any]) -> None:
    learner.model.load_state_dict(saved["model"])
    learner.optimizer_state = saved["optimizer"]
    learner.position = Position(**saved["position"])
    learner.began -= learner.position.wall_seconds
    learner.tell(f"resumed at step {learner.position.step}", now=True)


def _outcome(
    learner: Learner, cell: Cell, task: Task, diverged: Diverged | None, ran: dict[str, str]
) -> Outcome:
    model, position = learner.model, learner.position
    seq_len = _longest(task, "test")
    return Outcome(
        status="diverged" if diverged else "ok",
        diverged_step=diverged.step if diverged else None,
        diverged_lr=diverged.lr if diverged else None,
        steps=position.step,
        total_steps=learner.total_steps,
        epochs=position.step // len(learner.streams["train"]),
        early_stopped=position.early_stopped,
        scores={} if diverged else {"valid": position.valid_scores, "test": learner.test},
        distances={} if diverged else learner.distances,
        coverage=None if model.sees_all(seq_len) else coverage(task, "test", model.visible),
        state_seq_len=seq_len,
        state_model=peak(model.state_size, seq_len),
        state_mixer=peak(model.mixers[cell.chosen_layer].state_size, seq_len),
        layers=[type(mixer).__name__ for mixer in model.mixers],
        parameters=sum(p.numel() for p in model.parameters()),
        parameters_without_embedding=working_parameters(model),
        causal=model.causal,
        exact_decode=model.exact_decode,
        wall_seconds=learner.wall_seconds(),
        examples_per_second=position.examples / position.train_seconds if position.examples else None,
        decode_tokens_per_second=(
            None if diverged else decode_tokens_per_second(model, seq_len, learner.device)
        ),
        operations=cost(cell, model, task).operations,
        peak_memory_bytes=_peak_memory(learner.device),
        kernels=ran,
    )


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
