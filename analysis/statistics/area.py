"""The area under a frontier: one number for how much is recalled with little state."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .frontier import takes_part
from .seeds import percentiles
from .uncertainty import resampled_points

Floats = NDArray[np.float64]


def area(
    points: pd.DataFrame,
    scores: pd.DataFrame,
    *,
    low: float,
    high: float,
    x: str = "state_resident",
    by: str | None = None,
) -> pd.DataFrame:
    """Accuracy of the frontier, integrated over log2 of the state from low to high: accuracy x doublings.

    The frontier is the step that holds the best accuracy had with at most so much state, 0 below the smallest
    point.  One row, or one for each value of `by` ("series": each series' own frontier): area, area_low,
    area_high (95 %, seeds drawn again; NaN where no point has two), mean_accuracy (area / doublings), low,
    high, points.  scores: of `analysis.statistics.uncertainty.at_chosen`.  Raises ValueError unless 0 < low
    < high.
    """
    if not 0 < low < high:
        raise ValueError(f"low (={low}) must be positive and below high (={high}).")
    allowed = points.loc[takes_part(points) & points[x].notna()]
    groups = [({by: name}, group) for name, group in allowed.groupby(by)] if by else [({}, allowed)]
    rows = []
    for name, group in groups:
        states = group[x].to_numpy(float)
        areas = under(states, group["accuracy"].to_numpy(float), low, high)
        spread = np.nan, np.nan
        if any(group["seeds"] > 1):
            spread = percentiles(under(states, resampled_points(group, scores), low, high))
        rows.append(
            name
            | {"area": float(areas), "area_low": spread[0], "area_high": spread[1]}
            | {"mean_accuracy": float(areas) / np.log2(high / low), "low": low, "high": high}
            | {"points": len(group)}
        )
    return pd.DataFrame(rows)


def under(states: Floats, accuracies: Floats, low: float, high: float) -> Floats:
    """The area of each row of accuracies [..., P] over states [P]."""
    order = np.argsort(states)
    best = np.maximum.accumulate(accuracies[..., order], axis=-1)
    edges = np.log2(np.clip(np.append(states[order], high), low, high))
    return best @ np.diff(edges)
