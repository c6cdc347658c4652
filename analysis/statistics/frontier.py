"""The points that no other point beats: at most as much state and at least as much accuracy."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .chance import above


def decodable(points: pd.DataFrame) -> pd.Series:
    """Causal and exactly decodable: whose state is all that it remembers."""
    return pd.Series(points["causal"] & points["exact_decode"], dtype=bool)


def takes_part(points: pd.DataFrame) -> pd.Series:
    """Decodable points of which a seed finished; no other is compared at equal state."""
    return decodable(points) & (points["diverged"] < points["seeds"])


def contends(points: pd.DataFrame) -> pd.Series:
    """Points that take part and are above chance; no other belongs on the frontier, however small."""
    return takes_part(points) & above(points)


def frontier(points: pd.DataFrame, x: str = "state_resident", y: str = "accuracy") -> pd.Series:
    """True for each point that contends and that no other contending one dominates (`non_dominated`)."""
    allowed = (contends(points) & points[x].notna() & points[y].notna()).to_numpy()
    result = np.zeros(len(points), dtype=bool)
    xs, ys = points.loc[allowed, x].to_numpy(float), points.loc[allowed, y].to_numpy(float)
    result[allowed] = non_dominated(xs, ys)
    return pd.Series(result, index=points.index, name="on_frontier")


def non_dominated(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[..., P] for ys [..., P], each of its rows alone, and xs [P].

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
