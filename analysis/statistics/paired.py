"""Compare two mixers with the same seeds: they share data and order, so their scores come in pairs."""

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .equal import by_seed
from .frontier import takes_part
from .seeds import interval

EXACT = 14  # pairs up to which every exchange of signs is tried
LEVEL = 0.05
CLAIMED = ("claim", "ahead", "behind", "slice")  # columns of a CSV of claims
HOLDS, OPEN, REVERSED = "holds", "not shown", "the other way round"
UNABLE = "cannot be shown"  # with so many claims and its few seeds, the least possible p is too large
ROUNDING = 1e-12  # of the sum of absolute differences: exchanges closer than that count as equal


def compare(a: pd.Series, b: pd.Series) -> dict[str, float | int | str]:
    """Compare the scores by seed of two mixers, over the seeds that both have.

    difference: mean of a - b; low, high, interval: `analysis.statistics.seeds.interval` of the differences;
    p: of the permutation test (`p_value`); least_p: the smallest p that the test can give: 2 / 2^pairs where
    it is exact, 1 / 2^EXACT where it draws; pairs: shared seeds.  NaN where no seed is shared.
    """
    differences = (a - b).dropna().to_numpy(float)
    if not len(differences):
        nothing = dict.fromkeys(("difference", "low", "high", "p", "least_p"), np.nan)
        return nothing | {"interval": "", "pairs": 0}
    low, high, how = interval(differences)
    return {
        "difference": float(differences.mean()),
        "low": low,
        "high": high,
        "interval": how,
        "p": p_value(differences),
        "least_p": least_p(len(differences)),
        "pairs": len(differences),
    }


def least_p(pairs: int) -> float:
    """Return the smallest p that so many pairs can give."""
    return min(1.0, 2.0 ** (1 - pairs)) if pairs <= EXACT else 2.0**-EXACT


def p_value(differences: NDArray[np.float64]) -> float:
    """Return p of the two-sided permutation test: the share of all ways to exchange the two mixers within
    pairs whose mean difference is at least as large.  Exact up to EXACT pairs, else from 2^EXACT random ways.
    """
    count = len(differences)
    if count <= EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=count)))
    else:
        signs = np.random.default_rng(0).choice([1.0, -1.0], (2**EXACT, count))
        signs[0] = 1.0  # the exchange that was observed is one of them
    sums = np.abs(signs @ differences)
    return float((sums >= abs(differences.sum()) - ROUNDING * np.abs(differences).sum()).mean())


def holm(ps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the p values of several claims, corrected for their number (Holm 1979): the k-th smallest of n
    times n - k + 1, never below the one before it.  NaN: not tested.
    """
    corrected = np.full_like(ps, np.nan)
    order = [place for place in np.argsort(ps) if not np.isnan(ps[place])]
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * ps[place]))
        corrected[place] = highest
    return corrected


def at_equal_state(points: pd.DataFrame, scores: pd.DataFrame, x: str = "state_resident") -> pd.DataFrame:
    """Compare every two series whose states overlap, at the geometric middle of the overlap.

    a, b, state, and the columns of `compare`; p is not corrected for the number of pairs of series.
    points, scores: as in `analysis.statistics.equal`.
    """
    allowed = points.loc[takes_part(points) & points[x].notna()]
    spans = {str(name): (group[x].min(), group[x].max()) for name, group in allowed.groupby("series")}
    rows = []
    for a, b in combinations(spans, 2):
        low, high = max(spans[a][0], spans[b][0]), min(spans[a][1], spans[b][1])
        if low <= high:
            state = float(np.sqrt(low * high))
            scored = (by_seed(points, scores, name, state, x) for name in (a, b))
            rows.append({"a": a, "b": b, "state": state} | compare(*scored))
    columns = ["a", "b", "state", "difference", "low", "high", "interval", "p", "least_p", "pairs"]
    return pd.DataFrame(rows, columns=columns)


def tested(claims: pd.DataFrame, scores: Callable[[str, str], pd.Series]) -> pd.DataFrame:
    """Return `claims` with the columns of `compare`, p_holm and verdict.

    scores(condition, slice): the scores by seed of the one point that fulfils the condition.
    """

    def side(number: int, row: dict[str, str], name: str) -> pd.Series:
        try:
            return scores(row[name], row["slice"])
        except ValueError as error:
            place = f"{claims.attrs.get('path', 'claims')}, claim {number}"
            raise ValueError(f"{place}: {name} (={row[name]!r}): {error}") from None

    rows = enumerate(claims.to_dict("records"), 1)
    found = pd.DataFrame([compare(side(i, row, "ahead"), side(i, row, "behind")) for i, row in rows])
    found["p_holm"] = holm(found["p"].to_numpy(float))
    shown, ahead = found["p_holm"] <= LEVEL, found["difference"] > 0
    unable = holm(found["least_p"].to_numpy(float)) > LEVEL  # though every p were as small as it can be
    unable |= found["pairs"].to_numpy() == 0
    found["verdict"] = np.select([unable, ~shown, ahead], [UNABLE, OPEN, HOLDS], REVERSED)
    return pd.concat([claims, found], axis=1)
