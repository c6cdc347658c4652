"""Compare series where their states, or their accuracies, are equal, and by the area under a frontier.

A series is read as the best accuracy with at most so much state: the running maximum over its points, and
between two points a straight line over log2 of the state.  Outside its smallest and largest point it has no
value; nothing is extrapolated.
"""

import numpy as np
import pandas as pd

from .frontier import takes_part
from .seeds import percentiles
from .uncertainty import Floats, resampled_points

RESIDENT = "state_resident"  # the state at which series are compared, unless another column is asked for


def accuracy_at(points: pd.DataFrame, scores: pd.DataFrame, states: list[float]) -> pd.DataFrame:
    """Return a row per series and state: its accuracy (NaN outside its points), low, high (95 %; NaN where no
    point has two seeds), seeds (the fewest of its points).

    points: of one picture; scores: of `analysis.statistics.uncertainty.at_chosen` on the same slices.
    """
    rows = []
    for name, group in _series(points):
        xs, ys = (group[column].to_numpy(float) for column in (RESIDENT, "accuracy"))
        draws = _draws(group, scores)
        for state in states:
            here, drawn = float(accuracies(xs, ys, state)), accuracies(xs, draws, state)
            rows.append({"state": state} | _row(name, "accuracy", here, drawn, group))
    return pd.DataFrame(rows, columns=["series", "state", "accuracy", "low", "high", "seeds"])


def state_at(points: pd.DataFrame, scores: pd.DataFrame, accuracy: float) -> pd.DataFrame:
    """Return a row per series: the least state with this accuracy, low, high, seeds, censored, reached.

    state is NaN where censored: "above" (no point reaches the accuracy) or "below" (the smallest point
    already exceeds it).  reached: the share of draws that have such a state; low and high are over these
    draws only, and so too narrow where reached is below 1.
    """
    rows = []
    for name, group in _series(points):
        states = group[RESIDENT].to_numpy(float)
        draws = least_states(states, _draws(group, scores), accuracy)
        here = least_states(states, group["accuracy"].to_numpy(float), accuracy)
        reached = float(np.isfinite(draws).mean()) if len(draws) else np.nan
        outside = "above" if max(group["accuracy"]) < accuracy else "below"
        censored = "" if np.isfinite(here) else outside
        rows.append(
            _row(name, "state", float(here), draws, group) | {"censored": censored, "reached": reached}
        )
    return pd.DataFrame(rows, columns=["series", "state", "low", "high", "seeds", "censored", "reached"])


def by_seed(
    points: pd.DataFrame, scores: pd.DataFrame, series: str, state: float, x: str = RESIDENT
) -> pd.Series:
    """Return seed -> accuracy of the series at this state, from that seed's cells only.

    The points that lead are chosen by their means and read for every seed: the best point of each seed would
    be its luckiest.  Only seeds that all points have; empty where the state lies outside the points.
    """
    group = next((group for name, group in _series(points, x) if name == series), points.iloc[:0])
    own = scores.loc[scores["point"].isin(group["point"])]
    wide = own.pivot(index="seed", columns="point", values="accuracy")
    wide = wide.reindex(columns=group["point"]).dropna()
    states, means = (group[column].to_numpy(float) for column in (x, "accuracy"))
    xs = np.unique(states)
    leading = [int(np.where(states <= each, means, -np.inf).argmax()) for each in xs]
    at_state = _read(np.log2(xs), wide.to_numpy(float)[:, leading], state)
    return pd.Series(at_state, index=wide.index, name=series, dtype=float).dropna()


def accuracies(states: Floats, ys: Floats, state: float) -> Floats:
    """Return the accuracy at this state of each row of ys [..., P] over states [P]; NaN outside."""
    return _read(*_curve(states, ys), state)


def least_states(states: Floats, ys: Floats, accuracy: float) -> Floats:
    """Return the least state of each row of ys [..., P] with this accuracy; NaN: none or all exceed it."""
    xs, best = _curve(states, ys)
    enough = best >= accuracy
    place = enough.argmax(axis=-1)[..., None]
    before = np.maximum(place - 1, 0)
    high, low = (np.take_along_axis(best, i, axis=-1) for i in (place, before))
    rise = np.where(high > low, high - low, 1.0)
    log_states = xs[before] + (xs[place] - xs[before]) * (accuracy - low) / rise
    none = ~enough.any(axis=-1) | (best[..., 0] > accuracy)
    return np.where(none, np.nan, 2.0 ** np.where(none, 0.0, log_states[..., 0]))


def area(points: pd.DataFrame, scores: pd.DataFrame, *, low: float, high: float) -> pd.DataFrame:
    """Return a row per series: the accuracy of its frontier integrated over log2 of the state, low to high.

    The frontier is the step function of the best accuracy with at most so much state, 0 below the smallest
    point.  Columns: area (accuracy x doublings), area_low, area_high (95 %, seeds drawn again; NaN where no
    point has two), mean_accuracy (area / doublings), low, high, points.  scores: of
    `analysis.statistics.uncertainty.at_chosen`.  ValueError unless 0 < low < high.
    """
    if not 0 < low < high:
        raise ValueError(f"low (={low}) must be positive and below high (={high}).")
    rows = []
    for name, group in _series(points):
        states = group[RESIDENT].to_numpy(float)
        whole = float(under(states, group["accuracy"].to_numpy(float), low, high))
        spread = percentiles(under(states, _draws(group, scores), low, high))
        rows.append(
            {"series": name}
            | {"area": whole, "area_low": spread[0], "area_high": spread[1]}
            | {"mean_accuracy": whole / np.log2(high / low), "low": low, "high": high}
            | {"points": len(group)}
        )
    return pd.DataFrame(rows)


def under(states: Floats, accuracies: Floats, low: float, high: float) -> Floats:
    """Return the area under the frontier of each row of accuracies [..., P] over states [P]."""
    order = np.argsort(states)
    best = np.maximum.accumulate(accuracies[..., order], axis=-1)
    edges = np.log2(np.clip(np.append(states[order], high), low, high))
    return best @ np.diff(edges)


def _series(points: pd.DataFrame, x: str = RESIDENT) -> list[tuple[str, pd.DataFrame]]:
    allowed = points.loc[takes_part(points) & points[x].notna()]
    return [(str(name), group) for name, group in allowed.groupby("series")]


def _draws(group: pd.DataFrame, scores: pd.DataFrame) -> Floats:
    several = any(group["seeds"] > 1)
    return resampled_points(group, scores) if several else np.empty((0, len(group)))


def _row(name: str, what: str, here: float, draws: Floats, group: pd.DataFrame) -> dict[str, object]:
    low, high = percentiles(draws) if np.isfinite(here) else (np.nan, np.nan)
    return {"series": name, what: here, "low": low, "high": high, "seeds": min(group["seeds"])}


def _read(xs: Floats, ys: Floats, state: float) -> Floats:
    """Return each row of ys [..., P] at this state, on straight lines over xs [P], log2 of rising states; NaN
    outside."""
    if not len(xs) or not xs[0] <= np.log2(state) <= xs[-1]:
        return np.full(ys.shape[:-1], np.nan)
    place = min(int(np.searchsorted(xs, np.log2(state), side="right")), len(xs) - 1)
    before = max(place - 1, 0)
    width = xs[place] - xs[before]
    share = (np.log2(state) - xs[before]) / width if width else 0.0
    return ys[..., before] * (1 - share) + ys[..., place] * share


def _curve(states: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """Return log2 of the states, each once and rising, and the best accuracy with at most that state."""
    xs, which = np.unique(states, return_inverse=True)
    best = np.stack([ys[..., which == i].max(axis=-1) for i in range(len(xs))], axis=-1)
    return np.log2(xs), np.maximum.accumulate(best, axis=-1)
