"""Compute the learning rate from the step alone, so that there is no schedule to save or resume.

conf/optim's `schedule` is a word, or a class: a `Schedule` of the user's own, or one of torch's.

    'optim.schedule={_target_: torch.optim.lr_scheduler.ExponentialLR, gamma: 0.999}'
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from zoo.common.checks import reason
from zoo.config.settings import OptimConfig
from zoo.config.targets import check, make

COOLING = 0.1  # the share of all steps over which "wsd" falls


class Schedule(ABC):
    """A learning rate over time, after the warm-up; its settings are the arguments of its class."""

    @abstractmethod
    def __call__(self, step: int, total_steps: int) -> float:
        """Return the factor on the peak rate at `step` (from 0) of `total_steps`."""


def lr_factor(config: OptimConfig, step: int, total_steps: int) -> float:
    """Return the factor on the peak rate at `step` (from 0): linear over the warm-up, then the schedule's.

    "cosine" falls to 0; "wsd" (warm-up, stable, decay) holds the peak and falls linearly to 0 over the last
    tenth of the steps; a class counts its steps from the end of the warm-up.

    schedule_every "epoch" holds the cosine still within an epoch.  Without warm-up that is
    torch's CosineAnnealingLR(T_max=max_epochs, eta_min=0) stepped once an epoch, as the reference has it.
    """
    warmup = round(config.warmup * total_steps)
    if step < warmup:
        return (step + 1) / warmup
    if isinstance(config.schedule, Mapping):
        return _named(json.dumps(config.schedule))(step - warmup, total_steps - warmup)
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "wsd":
        return min(1.0, (total_steps - step) / max(1, round(COOLING * total_steps)))
    if config.schedule_every == "epoch":
        per_epoch = total_steps // config.max_epochs
        step = max(warmup, step // per_epoch * per_epoch)
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total_steps - warmup)))


class _Torchs(Schedule):
    """One of torch's schedulers, stepped with an optimizer of rate 1; the factor of each step is kept."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        self._scheduler = make(settings, LRScheduler, optimizer=self._optimizer)
        self._factors = [self._rate()]

    def __call__(self, step: int, total_steps: int) -> float:
        while len(self._factors) <= step:
            self._optimizer.step()
            self._scheduler.step()
            self._factors.append(self._rate())
        return self._factors[step]

    def _rate(self) -> float:
        return float(self._optimizer.param_groups[0]["lr"])


@lru_cache(maxsize=16)
def _named(settings: str) -> Schedule:
    """Build the class that conf/optim names; settings: as JSON."""
    config = json.loads(settings)
    return _Torchs(config) if _contract(config) is LRScheduler else make(config, Schedule)


def _contract(settings: Mapping[str, Any]) -> type[Any]:
    return LRScheduler if str(settings.get("_target_")).startswith("torch.") else Schedule


def check_schedule(config: OptimConfig) -> None:
    """Refuse, in one ValueError, a schedule that is a class and cannot be built or gives no finite rate."""
    if not isinstance(config.schedule, Mapping):
        return
    name = f"optim.schedule (={config.schedule.get('_target_')})"
    check(config.schedule, _contract(config.schedule), "optim.schedule")
    try:
        factors = [lr_factor(config, step, 100) for step in range(100)]
    except Exception as error:  # whatever a constructor raises
        raise ValueError(f"{name} cannot be built or asked: {reason(error)}.") from error
    if not all(math.isfinite(factor) and factor >= 0 for factor in factors):
        raise ValueError(f"{name} must give finite factors of at least 0; over 100 steps one was not.")
