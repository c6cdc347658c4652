"""Find the points that no other point beats by at most as much state and at least as much accuracy."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .chance import above


def decodable(points: pd.DataFrame) -> pd.Series:
    """Return which points are causal and exactly decodable, so that their state is all that they remember."""
    return pd.Series(points["causal"] & points["exact_decode"], dtype=bool)


def takes_part(points: pd.DataFrame) -> pd.Series:
    """Return which points are decodable and have a finished seed; only these are compared at equal state."""
    return decodable(points) & (points["diverged"] < points["seeds"])


def contends(points: pd.DataFrame) -> pd.Series:
    """Return which points take part and are above chance; only these may be on the frontier."""
    return takes_part(points) & above(points)


def frontier(points: pd.DataFrame, x: str = "state_resident", y: str = "accuracy") -> pd.Series:
    """Return which points contend and are dominated by no other contending point (`non_dominated`)."""
    allowed = (contends(points) & points[x].notna() & points[y].notna()).to_numpy()
    result = np.zeros(len(points), dtype=bool)
    xs, ys = points.loc[allowed, x].to_numpy(float), points.loc[allowed, y].to_numpy(float)
    result[allowed] = non_dominated(xs, ys)
    return pd.Series(result, index=points.index, name="on_frontier")


def non_dominated(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points are not dominated, [..., P], for xs [P] and each row of ys [..., P] by itself.

    p dominates q when x_p <= x_q and y_p >= y_q and one of the two is strict.  So of points with equal x
    only the highest stays, of points with equal y only the smallest, and points equal in both stay together.
    """
    if not len(xs):
        return np.zeros(ys.shape, dtype=bool)
    states, which = np.unique(xs, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(states)))
    highest = np.maximum.reduceat(ys[..., order], starts, axis=-1)  # [..., states]
    smaller = np.full_like(highest, -np.inf)
    smaller[..., 1:] = np.maximum.accumulate(highest, axis=-1)[..., :-1]
    return (ys == highest[..., which]) & (ys > smaller[..., which])
