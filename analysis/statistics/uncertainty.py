"""Draw the seeds of each point again, many times, to estimate what other seeds would give.

The learning rate is not chosen again in each draw: every interval is for the chosen one.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..records.cells import seed_scores
from .frontier import contends, non_dominated
from .seeds import resamples

Floats = NDArray[np.float64]
RESAMPLES = 2_000


def at_chosen(table: pd.DataFrame, chosen: pd.DataFrame, split: str, of: list[str]) -> pd.DataFrame:
    """Return `seed_scores` at each point's chosen learning rate: a row per point and seed."""
    return seed_scores(table, split, of).merge(chosen[["point", "lr"]], on=["point", "lr"])


def resampled(scores: Floats, rng: np.random.Generator, draws: int = RESAMPLES) -> Floats:
    """Return the means over seeds of scores [seeds, ...] drawn with replacement: [draws, ...].  The values of
    one seed are drawn together."""
    return scores[resamples(len(scores), draws, rng)].mean(axis=1)


def resampled_points(points: pd.DataFrame, scores: pd.DataFrame) -> Floats:
    """Return [RESAMPLES, P]: the accuracy of each point when its own seeds are drawn again.

    scores: of `at_chosen`, with the same slices as points.  The generator is seeded here.
    """
    rng = np.random.default_rng(0)
    wanted = scores.loc[scores["point"].isin(points["point"])]
    of_point = {name: group["accuracy"].to_numpy(float) for name, group in wanted.groupby("point")}
    columns = [resampled(of_point[name], rng) for name in points["point"]]
    return np.stack(columns, axis=1) if columns else np.empty((RESAMPLES, 0))


def on_frontier(points: pd.DataFrame, scores: pd.DataFrame, x: str = "state_resident") -> pd.Series:
    """Return how often each point is on the frontier when the seeds of every point are drawn again, 0 to 1.

    NaN for a point that does not contend, and for all where no point has two seeds.  A point with one seed
    has the same accuracy in every draw, and so looks more certain than it is.
    """
    result = pd.Series(np.nan, index=points.index, name="frontier_share")
    allowed = contends(points) & points[x].notna()
    if any(points.loc[allowed, "seeds"] > 1):
        draws = resampled_points(points.loc[allowed], scores)
        on = non_dominated(points.loc[allowed, x].to_numpy(float), draws)
        result[allowed] = on.mean(axis=0)
    return result
