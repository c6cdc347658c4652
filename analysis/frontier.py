"""The points that no other point beats: at most as much state and at least as much accuracy."""

import numpy as np
import pandas as pd


def takes_part(points: pd.DataFrame) -> pd.Series:
    """Causal, exactly decodable points of which a seed finished; no other belongs on the frontier."""
    finished = points["diverged"] < points["seeds"]
    return pd.Series(points["causal"] & points["exact_decode"] & finished, dtype=bool)


def frontier(points: pd.DataFrame, x: str = "state_resident", y: str = "accuracy") -> pd.Series:
    """True for each point that takes part and that no other taking part dominates.

    p dominates q when x_p <= x_q and y_p >= y_q and one of the two is strict.  So of points with equal x
    only the highest stays, of points with equal y only the smallest, and points equal in both stay together.
    """
    allowed = takes_part(points) & points[x].notna() & points[y].notna()
    xs, ys = points.loc[allowed, x].to_numpy(float), points.loc[allowed, y].to_numpy(float)
    no_larger = xs[:, None] <= xs  # [p, q]
    no_lower = ys[:, None] >= ys
    strict = (xs[:, None] < xs) | (ys[:, None] > ys)
    dominated = (no_larger & no_lower & strict).any(axis=0)
    result = np.zeros(len(points), dtype=bool)
    result[allowed.to_numpy()] = ~dominated
    return pd.Series(result, index=points.index, name="on_frontier")
