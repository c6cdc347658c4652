"""Round one matrix without a model, and report the error after a thousand writes, measured and predicted.

S_t = a (I - b k k^T) S_{t-1} + b k v^T, with random keys of length one and values from N(0, 1), rounded after
every write.  Three rules: a sum (a = 1, no term in k k^T), a decayed sum (a = .99), and Gated DeltaNet's
(a = .99, b = .5).

Prediction for stochastic rounding, without a free parameter: a step D adds D^2 / 6 of variance to an entry on
average.  The error is then carried on like the state, so that in the mean over random keys its square shrinks
by r per write: r = a^2, or a^2 (1 - b (2 - b) / K) where a delta rule erases, K the channels of a key.  D is
that of the exact state.  lost: the share of the entries of all writes that are below D / 2 for the exact
state, which nearest rounding drops unless the entry is close to the edge of its step.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from zoo.model.codecs.codec import ROUNDINGS, Codec, Form
from zoo.model.codecs.formats import FORMATS

WRITES, CHANNELS, DRAWS = 1000, 32, 8


class Rule(NamedTuple):
    """An update rule.  decay: a; rate: b of what is written; erases: whether it subtracts b k k^T S first."""

    decay: float
    rate: float
    erases: bool

    def write(self, state: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the state of [draws, 1, K, V] after a write."""
        state = self.decay * state
        if self.erases:
            value = value - (key.mT @ state)
        return state + self.rate * key @ value

    @property
    def shrinks(self) -> float:
        """Return the mean factor of an error's square per write."""
        erased = self.rate * (2 - self.rate) / CHANNELS if self.erases else 0.0
        return self.decay**2 * (1 - erased)


RULES = {
    "sum": Rule(1.0, 1.0, False),
    "decayed sum": Rule(0.99, 1.0, False),
    "gated delta rule": Rule(0.99, 0.5, True),
}


def table(
    formats: Sequence[str] = ("int8", "int4"), scales: Sequence[str] = ("tensor", "key"), writes: int = WRITES
) -> pd.DataFrame:
    """Return a row per rule, format and scale: the relative error of each rounding, the predicted error of
    stochastic rounding, and `lost`; means over DRAWS sequences of writes."""
    rows = []
    for name, rule in RULES.items():
        exact = list(_states(rule, writes))
        for format, scale in product(formats, scales):
            errors = {how: _error(rule, Form(format, scale, how), exact) for how in ROUNDINGS}
            steps = [_steps(state, format, scale) for state in exact]
            predicted = {"predicted": _predicted(rule, steps, exact[-1]), "lost": _lost(rule, steps, writes)}
            rows.append({"rule": name, "format": format, "scale": scale} | errors | predicted)
    return pd.DataFrame(rows)


def _writes(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield keys [draws, 1, K, 1] of length one and values [draws, 1, 1, V], the same at every call."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(count):
        key = torch.randn(DRAWS, 1, CHANNELS, 1, generator=draw)
        yield key / key.norm(dim=2, keepdim=True), torch.randn(DRAWS, 1, 1, CHANNELS, generator=draw)


def _states(rule: Rule, count: int) -> Iterator[Tensor]:
    state = torch.zeros(DRAWS, 1, CHANNELS, CHANNELS)
    for key, value in _writes(count):
        state = rule.write(state, key, value)
        yield state


def _error(rule: Rule, form: Form, exact: Sequence[Tensor]) -> float:
    codec, draw = Codec(form), torch.Generator().manual_seed(1)
    state, left = torch.zeros_like(exact[0]), torch.zeros_like(exact[0])
    for key, value in _writes(len(exact)):
        wanted = rule.write(state, key, value) + left
        state = codec.code(wanted, draw)
        if codec.residual is not None:
            left = codec.residual.code(wanted - state)
    return ((state - exact[-1]).flatten(1).norm(dim=1) / exact[-1].flatten(1).norm(dim=1)).mean().item()


def _steps(state: Tensor, format: str, scale: str) -> Tensor:
    """Return the step D of each entry."""
    axes = (2, 3) if scale == "tensor" else (3,)
    return (state.abs().amax(axes, keepdim=True) / FORMATS[format].grid.most).expand_as(state)


def _predicted(rule: Rule, steps: Sequence[Tensor], last: Tensor) -> float:
    variance = torch.zeros_like(last)
    for step in steps:
        variance = variance * rule.shrinks + step**2 / 6
    return (variance.flatten(1).sum(1) / last.flatten(1).square().sum(1)).sqrt().mean().item()


def _lost(rule: Rule, steps: Sequence[Tensor], writes: int) -> float:
    shares, state = [], torch.zeros_like(steps[0])
    for step, (key, value) in zip(steps, _writes(writes), strict=True):
        after = rule.write(state, key, value)
        shares.append(((after - rule.decay * state).abs() < step / 2).double().mean().item())
        state = after
    return float(np.mean(shares))
