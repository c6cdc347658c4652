"""Rank mixers over tasks, and say which tasks rank them alike: of a block in which nothing is missing.

Friedman's test says whether the mixers differ at all, Wilcoxon's signed ranks over tasks which two of them do
(Demsar 2006, JMLR 7:1-30), and Spearman's correlation over mixers how well one task foretells another.
"""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, wilcoxon

from .paired import holm

RESAMPLES = 2000
SEED = 0  # of the mixers that are drawn again


def block(scores: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies [mixer x task] from rows of `scored.means`.  ValueError: a mixer lacks a task."""
    wide = scores.pivot(index="series", columns="task", values="accuracy")
    missing = [f"{mixer} on {task}" for mixer, task in wide.isna().stack().loc[lambda gap: gap].index]
    if missing:
        raise ValueError(f"The block is not complete: {', '.join(missing)}.")
    return wide


def mean_ranks(scores: pd.DataFrame) -> pd.Series:
    """Return each mixer's mean rank over tasks, the best first; 1 is the best, equals share their ranks."""
    return scores.rank(ascending=False).mean(axis=1).sort_values()


def friedman(scores: pd.DataFrame) -> tuple[float, float]:
    """Return chi squared, corrected for equals, and its p, which is an approximation for many tasks."""
    found = friedmanchisquare(*scores.to_numpy(float))
    return float(found.statistic), float(found.pvalue)


def pairs(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, difference (mean over tasks), p (Wilcoxon, two-sided, exact without equals) and p_holm."""
    rows = []
    for a, b in combinations(scores.index, 2):
        apart = scores.loc[a] - scores.loc[b]
        _, p = wilcoxon(apart) if apart.any() else (0.0, 1.0)
        rows.append((a, b, apart.mean(), p))
    found = pd.DataFrame(rows, columns=["a", "b", "difference", "p"])
    return found.assign(p_holm=holm(found["p"].to_numpy(float)))


def between_tasks(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, rho (Spearman, over mixers), low and high: 95 % of what redrawn mixers give."""
    generator = np.random.default_rng(SEED)
    drawn = generator.integers(len(scores), size=(RESAMPLES, len(scores)))
    rows = []
    for a, b in combinations(scores.columns, 2):
        x, y = scores[a].to_numpy(float), scores[b].to_numpy(float)
        again = pd.Series([_rho(x[chosen], y[chosen]) for chosen in drawn])
        rows.append((a, b, _rho(x, y), *again.quantile([0.025, 0.975])))
    return pd.DataFrame(rows, columns=["a", "b", "rho", "low", "high"])


def _rho(x: np.ndarray, y: np.ndarray) -> float:
    """Return the rank correlation; NaN where all of either are equal, which has none."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])
