"""Measure whether one number orders mixers as another does, by Spearman's rank correlation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .seeds import percentiles, resamples
from .uncertainty import resampled

Floats = NDArray[np.float64]
FEWEST = 3  # two are always in order


class RankCorrelation(NamedTuple):
    """low, high: the middle 95 % where mixers are drawn again, and of each its seeds; NaN: all are level."""

    rho: float
    low: float
    high: float


def rank_correlation(x: Sequence[Floats], y: Sequence[Floats], draws: int = 2_000) -> RankCorrelation:
    """Correlate the means over seeds; x[i], y[i]: the seeds of mixer i in two studies of independent runs.

    ValueError: fewer than three mixers.
    """
    if len(x) < FEWEST:
        raise ValueError(
            f"a rank correlation needs {FEWEST} mixers that both studies have; there are {len(x)}."
        )
    rng = np.random.default_rng(0)
    drawn = [np.stack([resampled(seeds, rng, draws) for seeds in axis], axis=1) for axis in (x, y)]
    again = resamples(len(x), draws, rng)
    low, high = percentiles(_rho(*(np.take_along_axis(means, again, axis=1) for means in drawn)))
    whole = [np.array([[seeds.mean() for seeds in axis]]) for axis in (x, y)]
    return RankCorrelation(float(_rho(*whole)[0]), low, high)


def _rho(x: Floats, y: Floats) -> Floats:
    """Return rho of each row; NaN where x or y are all equal.  Equal ones share the mean of their ranks."""
    from scipy.stats import rankdata  # a second, which few pictures need

    a, b = (rank - rank.mean(axis=1, keepdims=True) for rank in (rankdata(x, axis=1), rankdata(y, axis=1)))
    size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.divide((a * b).sum(axis=1), size, out=np.full(len(x), np.nan), where=size > 0)
