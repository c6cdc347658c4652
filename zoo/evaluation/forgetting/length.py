"""Compute a model's fine and coarse memory length from its forgetting curve.

Liu et al. 2024, section 3.3: the fine length is the longest text that is copied with an accuracy of .99; the
coarse length is the longest text whose copy accuracy exceeds, by more than .01, its accuracy after another
text.  Both take the longest length that passes, not the first failure: short texts are copied badly, because
a model does not yet know that it should copy.  If the longest measured length passes, it is a lower bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from zoo.evaluation.forgetting.curve import COPY, LM

FINE, COARSE = 0.99, 0.01
SIGNIFICANT = 0.01
RESAMPLES = 1000  # of the bootstrap over the repeats
DIP_ENDS = 64  # tokens; a failure at shorter lengths may be the dip before a model knows it should copy


@dataclass(frozen=True)
class Length:
    """A length in tokens; 0: nothing is remembered.

    censored: the length is the longest measured, and the true one may be longer.
    low, high: the 95 % interval by a bootstrap over the repeats.  That of coarse lies too high with few
    repeats (it covers 70 % with ten, 95 % with thirty), because the largest of noisy gains is taken.
    """

    tokens: int
    censored: bool
    low: int
    high: int

    def __str__(self) -> str:
        return f"{'>' if self.censored else ''}{self.tokens}"


@dataclass(frozen=True)
class MemoryLengths:
    """Memory lengths.  fine, coarse: as published.  coarse_tested: a length counts only if copying is also
    better by a paired, one-sided t-test (p < .01); ten repeats of a short text differ by more than .01 by
    chance alone.  fine_unbroken: the last length of the first unbroken run of fine ones, from 64 tokens on.
    dip: 1 - the copy accuracy at the shortest length."""

    fine: Length
    coarse: Length
    coarse_tested: Length
    fine_unbroken: Length
    dip: float


@dataclass(frozen=True)
class _Curve:
    """A forgetting curve; copy, lm: accuracies [length, repeat] of the same texts."""

    lengths: np.ndarray
    copy: np.ndarray
    lm: np.ndarray


def memory_lengths(table: pd.DataFrame) -> MemoryLengths:
    """Return the memory lengths for the rows of `forgetting_curve`, with the mean over all sources of
    irrelevant text to compare copying with."""
    copy, guessed = (
        table.query(f"kind == '{kind}'").pivot_table(index="length", columns="repeat", values="accuracy")
        for kind in (COPY, LM)
    )
    if not copy.index.equals(guessed.index) or not copy.columns.equals(guessed.columns):
        raise ValueError("every length and repeat must have a copy row and an lm row.")
    curve = _Curve(copy.index.to_numpy(), copy.to_numpy(), guessed.to_numpy())
    repeats = curve.copy.shape[1]
    picks = np.random.default_rng(0).integers(0, repeats, (RESAMPLES, repeats))
    drawn = [_Curve(curve.lengths, curve.copy[:, pick], curve.lm[:, pick]) for pick in picks]
    return MemoryLengths(
        *(_length(curve, drawn, rule) for rule in (_fine, _coarse, _coarse_tested, _fine_unbroken)),
        dip=float(1 - curve.copy[0].mean()),
    )


def in_words(table: pd.DataFrame) -> str:
    """Return one line with both lengths, and the intervals of those that chance does not lengthen."""
    by_model = memory_lengths(table)
    fine, tested = (f"{one} ({one.low} to {one.high})" for one in (by_model.fine, by_model.coarse_tested))
    lengths = (
        f"fine {fine}, coarse {by_model.coarse} tokens; better by a paired test up to {tested}; "
        f"dip {by_model.dip:.2f}"
    )
    sources = table["prefix"].dropna().loc[lambda names: names != ""].nunique()
    if sources < 2:
        return lengths
    longest = int(np.max(table["length"].to_numpy()))
    effect = prefix_effect(table, longest)
    return (
        f"{lengths}; source of the other text at {longest} tokens: F {effect.f:.2f} (p {effect.f_p:.2f}), "
        f"H {effect.h:.2f} (p {effect.h_p:.2f})"
    )


class PrefixEffect(NamedTuple):
    """The statistics and p of two tests of whether the source of the irrelevant text matters."""

    f: float
    f_p: float
    h: float
    h_p: float


def prefix_effect(table: pd.DataFrame, length: int) -> PrefixEffect:
    """Test the lm rows of a length by prefix: one-way ANOVA and Kruskal-Wallis (appendix A of the paper).

    ValueError: fewer than two prefixes.
    """
    rows = table.query(f"kind == '{LM}' and length == {length}")
    groups = [np.asarray(group["accuracy"]) for _, group in rows.groupby("prefix")]
    if len(groups) < 2:
        raise ValueError(f"two sources of irrelevant text or more are needed at length {length}.")
    if np.ptp(np.concatenate(groups)) == 0:
        return PrefixEffect(0.0, 1.0, 0.0, 1.0)  # all accuracies are equal: p is 1 by convention
    return PrefixEffect(*stats.f_oneway(*groups), *stats.kruskal(*groups))


def _length(curve: _Curve, drawn: list[_Curve], rule: Callable[[_Curve], np.ndarray]) -> Length:
    """Return the length that a rule (curve -> which lengths pass) gives for the curve and its resamples."""
    tokens = _last(curve.lengths, rule(curve))
    low, high = np.quantile([_last(x.lengths, rule(x)) for x in drawn], [0.025, 0.975], method="nearest")
    return Length(tokens, bool(tokens == curve.lengths[-1]), int(low), int(high))


def _last(lengths: np.ndarray, passed: np.ndarray) -> int:
    return int(lengths[passed].max(initial=0))


def _fine(curve: _Curve) -> np.ndarray:
    return curve.copy.mean(1) >= FINE


def _coarse(curve: _Curve) -> np.ndarray:
    return curve.copy.mean(1) - curve.lm.mean(1) > COARSE


def _coarse_tested(curve: _Curve) -> np.ndarray:
    gain = curve.copy - curve.lm
    repeats = gain.shape[1]
    if repeats < 2:
        return np.zeros(len(gain), dtype=bool)
    mean, error = gain.mean(1), gain.std(1, ddof=1) / np.sqrt(repeats)
    t = np.divide(mean, error, out=np.where(mean > 0, np.inf, -np.inf), where=error > 0)
    return _coarse(curve) & (stats.t.sf(t, repeats - 1) < SIGNIFICANT)


def _fine_unbroken(curve: _Curve) -> np.ndarray:
    fine, late = _fine(curve), curve.lengths >= DIP_ENDS
    started = np.cumsum(fine & late) > 0
    return fine & late & (np.cumsum(started & ~fine) == 0)
