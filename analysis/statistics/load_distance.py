"""Measure two limits of a memory on rows whose load and distance vary apart (`evaluation=load_distance`).

capacity: the pairs at which accuracy falls below RECALL when each row is as short as its pairs allow.
half-life: the distance at which the gain of the fewest pairs over the blind score (of rows with other keys,
where only guessing among the values helps) falls to half of its value at the shortest distance.  Both are
read off on a straight line over log2, and lie above what was measured where nothing falls.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .capacity import RECALL, crossing

Floats = NDArray[np.float64]
DRAWS = 2000
LEARNED = 0.1  # the least gain over the blind score of which a half-life can be measured
GRID = ["num_kv_pairs", "distance"]
VALUES = ["accuracy", "error", "blind", "blind_error", "guess"]


def surface(joined: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point, load and distance: means over its seeds; seeds; trained (0: not known).

    joined: of `analysis.statistics.scored.answered`.
    """
    means = {name: (name, "mean") for name in [*VALUES, "trained"]}
    joined = joined if "trained" in joined else joined.assign(trained=0)
    return joined.groupby(["point", *GRID], as_index=False).agg(**means, seeds=("run_id", "nunique"))


def limits(joined: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point: capacity and half_life, each with NAME_low and NAME_high (95 %); seeds.

    0 and inf: below and above what was measured.  NaN: the half-life of a point that never learned.
    Intervals: seeds are drawn again, and the rows of each by their standard error.
    """
    return pd.DataFrame([{"point": point} | _of_point(group) for point, group in joined.groupby("point")])


def _of_point(group: pd.DataFrame) -> dict[str, Any]:
    wide = {name: _stacked(group, name) for name in VALUES}
    seeds = len(wide["accuracy"])
    rng = np.random.default_rng(0)
    drawn = rng.integers(seeds, size=(DRAWS, seeds))
    hidden = np.where(np.isnan(wide["blind"]), wide["guess"], wide["blind"])
    shown = _measured_and_drawn(wide["accuracy"], wide["error"], drawn, rng)
    blind = _measured_and_drawn(hidden, np.nan_to_num(wide["blind_error"]), drawn, rng)
    loads, distances = (np.log2(sorted(set(group[name].tolist()))) for name in GRID)
    first = (~np.isnan(shown[0])).argmax(axis=1)  # the shortest distance of each load
    drawn_limits = {
        "capacity": 2.0 ** crossing(loads, shown[:, np.arange(len(loads)), first], RECALL),
        "half_life": _half_life(shown - blind, distances),
    }
    result: dict[str, Any] = {"seeds": seeds}
    for name, values in drawn_limits.items():
        low, high = np.quantile(values[1:], [0.025, 0.975], method="nearest")
        result |= {name: values[0], f"{name}_low": low, f"{name}_high": high}
    return result


def _stacked(group: pd.DataFrame, name: str) -> Floats:
    """Return an array [seeds, loads, distances]; NaN where a distance has no room for the pairs."""
    wide = group.pivot(index=["run_id", "num_kv_pairs"], columns="distance", values=name)
    runs, loads = (sorted(set(group[key].tolist())) for key in ("run_id", GRID[0]))
    wide = wide.reindex(pd.MultiIndex.from_product([runs, loads])).sort_index(axis=1)
    return wide.to_numpy(float).reshape(len(runs), len(loads), -1)


def _measured_and_drawn(
    values: Floats, errors: Floats, drawn: NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Return [1 + DRAWS, loads, distances]: the mean over seeds, then the means of resampled seeds.

    Each drawn seed gets new noise of its own rows' standard error.
    """
    noise = rng.standard_normal((len(drawn), *values.shape))
    again = [(values[of] + errors[of] * rows).mean(0) for of, rows in zip(drawn, noise, strict=True)]
    return np.concatenate([values.mean(0, keepdims=True), np.stack(again)])


def _half_life(gain: Floats, distances: Floats) -> Floats:
    fewest = gain[:, 0]
    there = ~np.isnan(fewest[0])
    fewest, start = fewest[:, there], fewest[:, there][:, :1]
    if fewest[0, 0] < LEARNED:
        return np.full(len(gain), np.nan)
    return 2.0 ** crossing(distances[there], fewest / np.maximum(start, 1e-9), 0.5)
