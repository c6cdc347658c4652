"""conf/optim and conf/trainer, checked."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args

from zoo.checks import at_least, one_of


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """conf/optim/*.yaml, checked.  batch sizes in rows; warmup as a fraction of all steps."""

    batch_size: int
    eval_batch_size: int
    max_epochs: int
    betas: Sequence[float]
    weight_decay: float
    decay_all: bool
    grad_clip: float | None
    schedule: Literal["cosine", "constant"]
    schedule_every: Literal["step", "epoch"]
    warmup: float
    early_stop: float | None

    def __post_init__(self) -> None:
        for name in ("batch_size", "eval_batch_size", "max_epochs"):
            whole(f"optim.{name}", getattr(self, name))
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(
                f"optim.betas (={list(self.betas)}) must be two numbers of at least 0 and below 1."
            )
        at_least("optim.weight_decay", self.weight_decay, 0)
        if self.grad_clip is not None and not self.grad_clip > 0:
            raise ValueError(
                f"optim.grad_clip (={self.grad_clip}) must be positive, or null for no clipping."
            )
        one_of("optim.schedule", self.schedule, ("cosine", "constant"))
        one_of("optim.schedule_every", self.schedule_every, ("step", "epoch"))
        if not 0 <= self.warmup < 1:
            raise ValueError(
                f"optim.warmup (={self.warmup}) must be at least 0 and below 1: a share of all steps."
            )
        if self.early_stop is not None and not 0 < self.early_stop < 1:
            raise ValueError(f"optim.early_stop (={self.early_stop}) must lie between 0 and 1, or be null.")


def settings(group: str, kind: type[Any], config: Mapping[str, Any]) -> Any:
    """`kind(**config)` but for `about`; a misspelt or missing key in one line."""
    config = {key: value for key, value in config.items() if key != "about"}
    valid = {field.name for field in fields(kind)}
    needed = {field.name for field in fields(kind) if field.default is MISSING}
    for problem, names in (("unknown", config.keys() - valid), ("missing", needed - config.keys())):
        if names:
            raise ValueError(f"{problem} key {group}.{min(names)}: the keys are {', '.join(sorted(valid))}.")
    return kind(**config)


def whole(name: str, value: Any) -> None:
    """Refuse what is no positive whole number."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} (={value!r}) must be a whole number of at least 1.")


Form = Literal["auto", "eager", "graph", "compile"]  # of a training step
Precision = Literal["32-true", "64-true", "bf16-mixed", "bf16-head"]


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """conf/trainer/*.yaml, checked.  threads: of the CPU, for this cell.

    checkpoint_every, checkpoint_seconds: steps, and time, between two checkpoints; whichever is less.
    precision: bf16-head makes the products of the training loss's head in bfloat16 and all else in float32.
    step: how a training step is taken, see zoo.training.step.
    """

    accelerator: Literal["cpu", "gpu"]
    precision: Precision
    step: Form
    threads: int
    checkpoint_every: int
    checkpoint_seconds: float = 60.0  # cells of before there was one lack it

    def __post_init__(self) -> None:
        one_of("trainer.accelerator", self.accelerator, ("cpu", "gpu"))
        one_of("trainer.precision", self.precision, get_args(Precision))
        one_of("trainer.step", self.step, get_args(Form))
        if self.step == "graph" and self.accelerator == "cpu":
            raise ValueError("trainer.step (=graph) needs trainer.accelerator=gpu: use trainer.step=auto.")
        whole("trainer.threads", self.threads)
        whole("trainer.checkpoint_every", self.checkpoint_every)
        seconds = self.checkpoint_seconds
        if not (isinstance(seconds, int | float) and seconds > 0):
            raise ValueError(f"trainer.checkpoint_seconds (={seconds!r}) must be a positive number.")

    @property
    def device(self) -> str:
        return "cuda" if self.accelerator == "gpu" else "cpu"

    @property
    def layers(self) -> Literal["32-true", "64-true", "bf16-mixed"]:
        """The precision of everything but the loss's head, as Lightning calls it."""
        return "32-true" if self.precision == "bf16-head" else self.precision
