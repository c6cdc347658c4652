"""The interval that seeds leave around a mean."""

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
BOOTSTRAP, RANGE, NONE = "bootstrap 95 %", "min to max", "one seed"


def interval(scores: NDArray[np.float64]) -> tuple[float, float, str]:
    """(low, high, how) for the mean over seeds.

    Three seeds or more: the percentile bootstrap over seeds, 2.5 % to 97.5 %, from a generator seeded here
    (with three it coincides with the range, because 1 resample in 27 repeats the lowest).  Two: their range.
    One: no interval, low and high are NaN.
    """
    scores = np.sort(scores)
    if len(scores) == 1:
        return np.nan, np.nan, NONE
    if len(scores) == 2:
        return float(scores[0]), float(scores[1]), RANGE
    resampled = scores[resamples(len(scores))].mean(axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(low), float(high), BOOTSTRAP


def resamples(count: int) -> NDArray[np.int64]:
    """[RESAMPLES count]: which of so many seeds each resample of the bootstrap takes, always the same."""
    return np.random.default_rng(0).choice(count, (RESAMPLES, count))
