"""Check the settings of conf/optim, conf/trainer and conf/adaptation."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from zoo.common.checks import at_least, positive
from zoo.config.arguments import mistakes

ADAMW = "torch.optim.AdamW"


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """The checked settings of conf/optim/*.yaml.  Batch sizes in rows; warmup as a fraction of all steps.

    check_val_every_n_epoch: epochs from one validation to the next; the last epoch always has one.
    schedule: a word, or a class with its settings, see zoo.training.lr_schedule.
    _target_: the optimizer's class, see zoo.training.optimizer.  arguments: those of that class.
    """

    batch_size: int
    eval_batch_size: int
    max_epochs: int
    betas: Sequence[float]
    weight_decay: float
    decay_all: bool
    grad_clip: float | None
    schedule: Literal["cosine", "constant", "wsd"] | Mapping[str, Any]
    schedule_every: Literal["step", "epoch"]
    warmup: float
    early_stop: float | None
    check_val_every_n_epoch: int = 1  # older cells lack this key
    _target_: str = ADAMW  # older cells lack this key
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("batch_size", "eval_batch_size", "max_epochs"):
            at_least(f"optim.{name}", getattr(self, name), 1)
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"optim.betas (={list(self.betas)}) must be two numbers from 0 to below 1.")
        at_least("optim.weight_decay", self.weight_decay, 0)
        if self.grad_clip is not None and not self.grad_clip > 0:
            raise ValueError(f"optim.grad_clip (={self.grad_clip}) must be positive, or null: no clipping.")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"optim.warmup (={self.warmup}) must be from 0 to below 1, a share of steps.")
        if self.early_stop is not None and not 0 < self.early_stop < 1:
            raise ValueError(f"optim.early_stop (={self.early_stop}) must lie between 0 and 1, or be null.")
        if not 1 <= self.check_val_every_n_epoch <= self.max_epochs:
            raise ValueError(
                f"optim.check_val_every_n_epoch (={self.check_val_every_n_epoch}) must be at least 1, and at "
                f"most optim.max_epochs (={self.max_epochs}): the last epoch alone."
            )


def optim_settings(config: Mapping[str, Any]) -> OptimConfig:
    """Read conf/optim; keys that are not of `OptimConfig` are the optimizer's own arguments.

    ValueError, a line for each mistake.  `zoo.training.optimizer` checks the optimizer's own arguments.
    """
    names = {each.name for each in fields(OptimConfig)} - {"arguments"} | {"about"}
    known = {key: value for key, value in config.items() if key in names}
    rest = {key: value for key, value in config.items() if key not in names}
    return replace(settings("optim", OptimConfig, known), arguments=rest)


Target = Literal["query", "key", "value", "output"]
Whole = Literal["all", "embedding", "norms", "convolutions"]


@dataclass(frozen=True, kw_only=True)
class AdaptationConfig:
    """The checked settings of conf/adaptation/*.yaml.  targets: get adapters; train: parts trained whole."""

    rank: int | None
    alpha: float | None
    targets: Sequence[Target]
    train: Sequence[Whole]
    rope_scale: float

    def __post_init__(self) -> None:
        if (self.rank is None) != (self.alpha is None):
            raise ValueError(
                f"adaptation.rank (={self.rank}) and adaptation.alpha (={self.alpha}) go together: give both."
            )
        if self.rank is not None:
            at_least("adaptation.rank", self.rank, 1)
        if self.alpha is not None:
            positive("adaptation.alpha", self.alpha)
        if (self.rank is None) != (not self.targets):
            raise ValueError(
                f"adaptation.targets (={list(self.targets)}) must name what has the adapters of "
                f"adaptation.rank (={self.rank}), and nothing without a rank."
            )
        if not self.targets and not self.train:
            raise ValueError(
                "adaptation trains nothing: name adaptation.targets with a rank, or adaptation.train."
            )
        at_least("adaptation.rope_scale", self.rope_scale, 1)


def settings(group: str, kind: type[Any], config: Mapping[str, Any]) -> Any:
    """Build the dataclass `kind` from a section of the config.  ValueError, a line for each mistake."""
    if wrong := mistakes(group, config, kind):
        raise ValueError("\n".join(wrong))
    return kind(**{key: value for key, value in config.items() if key != "about"})


def flat(path: str, settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each setting as its dotted key and a scalar; a list becomes its JSON."""
    for key, value in settings.items():
        dotted = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from flat(dotted, value)
        elif not key.startswith("_"):
            yield dotted, json.dumps(value) if isinstance(value, list) else value


Form = Literal["auto", "eager", "graph", "compile"]  # of a training step
Precision = Literal["32-true", "64-true", "bf16-mixed", "bf16-head"]


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """The checked settings of conf/trainer/*.yaml.  threads: of the CPU, for this cell.

    checkpoint_every, checkpoint_seconds: steps and seconds between two checkpoints, whichever ends first.
    precision: bf16-head computes the matrix products of the loss's head in bfloat16, all else in float32.
    step: how a training step is taken, see zoo.training.step.
    callbacks: Lightning callbacks of the user's own, each with a `_target_`, see zoo.training.callbacks.
    """

    accelerator: Literal["cpu", "gpu"]
    precision: Precision
    step: Form
    threads: int
    checkpoint_every: int
    checkpoint_seconds: float = 60.0  # older cells lack this key
    callbacks: Sequence[Mapping[str, Any]] = ()  # older cells lack this key

    def __post_init__(self) -> None:
        if self.step == "graph" and self.accelerator == "cpu":
            raise ValueError("trainer.step (=graph) needs trainer.accelerator=gpu: use trainer.step=auto.")
        at_least("trainer.threads", self.threads, 1)
        at_least("trainer.checkpoint_every", self.checkpoint_every, 1)
        positive("trainer.checkpoint_seconds", self.checkpoint_seconds)

    @property
    def device(self) -> str:
        return "cuda" if self.accelerator == "gpu" else "cpu"

    @property
    def layers(self) -> Literal["32-true", "64-true", "bf16-mixed"]:
        """Return the precision of everything except the loss's head, as Lightning names it."""
        return "32-true" if self.precision == "bf16-head" else self.precision
