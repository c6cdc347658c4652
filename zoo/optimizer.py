"""The optimizer and everything `conf/optim` sets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

import torch
from torch import nn

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


def check_lr(lr: float) -> None:
    if not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"lr (={lr}) must be a positive number.")


def make_optimizer(model: nn.Module, config: OptimConfig, lr: float) -> torch.optim.AdamW:
    """AdamW.  Decayed are matrices, the embedding (with a tied head it is one) among them.

    Not decayed, unless `decay_all`: biases, norms and all else of one dimension, and any parameter that its
    mixer flagged with `parameter.no_weight_decay = True`.
    """
    decayed, rest = [], []
    for parameter in model.parameters():
        (decayed if config.decay_all or is_decayed(parameter) else rest).append(parameter)
    groups = [
        {"params": parameters, "weight_decay": decay}
        for parameters, decay in ((decayed, config.weight_decay), (rest, 0.0))
        if parameters
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(config.betas[0], config.betas[1]), fused=True)


def is_decayed(parameter: nn.Parameter) -> bool:
    return parameter.ndim >= 2 and not getattr(parameter, "no_weight_decay", False)
