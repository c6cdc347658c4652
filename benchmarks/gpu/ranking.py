"""Which choice is the fastest: a quick look at all, then the best few anew, each round beside the static one.

The quick look decides only which come again: of many choices, the luckiest looks better than it is.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import torch
from torch import Tensor

QUICK, ROUNDS, FEW = 3, 15, 4
NORM = {torch.bfloat16: 2**-6, torch.float32: 2**-13}  # of a difference, relative
# and of a row's: one wrong row is lost in the norm of all
ROW = {torch.bfloat16: 2**-3, torch.float32: 2**-10}
OTHERS = 2**-12  # of what is chosen: candidates that differ by rounding alone may change places

Name = TypeVar("Name", bound=Hashable)
Run = TypeVar("Run")


@dataclass(frozen=True)
class Timed:
    """seconds: of a call, the median.  ratio: to the static choice in the same round, the median."""

    seconds: float
    ratio: float


def fastest(
    static: Run, others: Mapping[Name, Run], seconds: Callable[[Run], float]
) -> tuple[float, dict[Name, Timed]]:
    """Seconds of the static choice; the best few of the others, the fastest first."""
    _, quick = in_rounds(static, others, seconds, QUICK)
    again, found = in_rounds(static, {name: others[name] for name in _sorted(quick)[:FEW]}, seconds, ROUNDS)
    return again, {name: found[name] for name in _sorted(found)}


def in_rounds(
    static: Run, others: Mapping[Name, Run], seconds: Callable[[Run], float], rounds: int
) -> tuple[float, dict[Name, Timed]]:
    """Each round times all once, every other one from the end, as a card grows warm."""
    seconds(static)
    beside: list[float] = []
    times: dict[Name, list[float]] = {name: [] for name in others}
    for number in range(rounds):
        beside.append(seconds(static))
        for name in list(others)[:: -1 if number % 2 else 1]:
            times[name].append(seconds(others[name]))
    found = {
        name: Timed(median(own), median(one / other for one, other in zip(own, beside, strict=True)))
        for name, own in times.items()
    }
    return median(beside), found


def _sorted(timed: Mapping[Name, Timed]) -> list[Name]:
    return sorted(timed, key=lambda name: timed[name].ratio)


def disagreement(found: Sequence[Tensor], true: Sequence[Tensor]) -> str | None:
    """Which output or gradient is not what the static choice gives, in words; None: none."""
    for number, (one, other) in enumerate(zip(found, true, strict=True)):
        if not other.is_floating_point():
            if (share := float((one != other).float().mean())) > OTHERS:
                return f"disagrees: result {number} in {share:.1g} of its numbers"
            continue
        norm, row = _errors(one.float(), other.float())
        if not (norm <= NORM[other.dtype] and row <= ROW[other.dtype]):  # NaN is neither
            return f"disagrees: result {number} by {norm:.1g}, its worst row by {row:.1g}"
    return None


def _errors(one: Tensor, other: Tensor) -> tuple[float, float]:
    """In norm; and of the worst row, relative to it and to a row in the mean."""
    one, other = torch.atleast_1d(one), torch.atleast_1d(other)
    size, apart = other.norm(dim=-1), (one - other).norm(dim=-1)
    mean = size.square().mean().sqrt()
    tiny = torch.finfo(torch.float32).tiny
    return (
        float(apart.norm() / (size.norm() + tiny)),
        float((apart / (size + mean + tiny)).max()),
    )
