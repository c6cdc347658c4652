"""Rank mixers over tasks, and find which tasks rank them alike, from a block in which nothing is missing.

Friedman's test shows whether the mixers differ at all, Wilcoxon's signed ranks over tasks which pairs differ
(Demsar 2006, JMLR 7:1-30), and Spearman's correlation over mixers how well one task predicts another.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, wilcoxon

from .paired import holm
from .seeds import percentiles, resamples
from .uncertainty import Floats, resampled

FEWEST = 3  # mixers: two are always ranked alike or in reverse


def block(scores: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies [mixer x task] from rows of `scored.means`.  ValueError: a mixer lacks a task."""
    wide = scores.pivot(index="series", columns="task", values="accuracy")
    missing = [f"{mixer} on {task}" for mixer, task in wide.isna().stack().loc[lambda gap: gap].index]
    if missing:
        raise ValueError(f"The block is not complete: {', '.join(missing)}.")
    return wide


def complete(means: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `scored.means` of mixers that have every task, with the most seeds that any has."""
    whole = means.loc[means["seeds"] == means["seeds"].max()]
    tasks = whole.groupby("series")["task"].transform("nunique")
    return whole.loc[tasks == means["task"].nunique()]


def mean_ranks(scores: pd.DataFrame) -> pd.Series:
    """Return each mixer's mean rank over tasks, the best first; 1 is the best, equals share their ranks."""
    return scores.rank(ascending=False).mean(axis=1).sort_values()


def friedman(scores: pd.DataFrame) -> tuple[float, float]:
    """Return chi squared, corrected for equals, and its p, which is an approximation for many tasks."""
    statistic, p = friedmanchisquare(*scores.to_numpy(float))
    return float(statistic), float(p)


def pairs(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, difference (mean over tasks), p (Wilcoxon, two-sided, exact without equals) and p_holm."""
    rows = []
    for a, b in combinations(scores.index, 2):
        apart = scores.loc[a] - scores.loc[b]
        _, p = wilcoxon(apart) if apart.any() else (0.0, 1.0)
        rows.append((a, b, apart.mean(), p))
    tests = pd.DataFrame(rows, columns=["a", "b", "difference", "p"])
    return tests.assign(p_holm=holm(tests["p"].to_numpy(float)))


def between_tasks(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, rho, low and high of `rank_correlation`, over mixers, of every two tasks."""
    of_task = {task: [np.array([score]) for score in scores[task]] for task in scores}
    rows = [(a, b, *rank_correlation(of_task[a], of_task[b])) for a, b in combinations(of_task, 2)]
    return pd.DataFrame(rows, columns=["a", "b", *RankCorrelation._fields])


class RankCorrelation(NamedTuple):
    """low, high: the middle 95 % over resampled mixers, each with resampled seeds; NaN: all are equal."""

    rho: float
    low: float
    high: float


def rank_correlation(x: Sequence[Floats], y: Sequence[Floats], draws: int = 2_000) -> RankCorrelation:
    """Correlate the means over seeds.  x[i], y[i]: scores of mixer i's seeds in two independent studies.

    ValueError: fewer than three mixers.
    """
    if len(x) < FEWEST:
        raise ValueError(f"a rank correlation needs {FEWEST} mixers of both studies; there are {len(x)}.")
    rng = np.random.default_rng(0)
    drawn = [np.stack([resampled(seeds, rng, draws) for seeds in axis], axis=1) for axis in (x, y)]
    again = resamples(len(x), draws, rng)
    low, high = percentiles(_rho(*(np.take_along_axis(means, again, axis=1) for means in drawn)))
    whole = [np.array([[seeds.mean() for seeds in axis]]) for axis in (x, y)]
    return RankCorrelation(float(_rho(*whole)[0]), low, high)


def _rho(x: Floats, y: Floats) -> Floats:
    """Return rho of each row; NaN where x or y are all equal.  Equal ones share the mean of their ranks."""
    a, b = (rank - rank.mean(axis=1, keepdims=True) for rank in (rankdata(x, axis=1), rankdata(y, axis=1)))
    size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.divide((a * b).sum(axis=1), size, out=np.full(len(x), np.nan), where=size > 0)
