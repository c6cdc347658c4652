"""Estimate after how many steps cells take off, though some never do: survival statistics, by scipy.

A cell has taken off at the first validation at which one of its slices is more than half way from its chance
to 1.  A cell that ends before is *censored*: it would have taken off later, or never.
"""

from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import CensoredData, ecdf, logrank

from .chance import chance
from .paired import holm

HALF_WAY = 0.5


def takeoffs(metrics: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return run_id, step, off: the first step at which each cell has taken off; if off is False, its last.

    A cell that diverged before its first validation is there with the step at which it ended.
    metrics: of `zoo.results.load_metrics`; table: of `zoo.results.load`, the cells of one task.
    """
    metrics = metrics.loc[metrics["run_id"].isin(table["run_id"])]
    rows = metrics.loc[(metrics["split"] == "valid") & (metrics["metric"] == "accuracy")]
    chances = rows["slice"].map({name: chance(table, [str(name)]) for name in rows["slice"].unique()})
    off = rows["value"] - chances > HALF_WAY * (1 - chances)
    first = rows.loc[off].groupby("run_id")["step"].min()
    lost = table.loc[(table["status"] == "diverged") & ~table["run_id"].isin(rows["run_id"])]
    ended = lost.drop_duplicates("run_id")[["run_id", "steps"]].rename(columns={"steps": "last"})
    steps = pd.concat([rows.groupby("run_id", as_index=False).agg(last=("step", "max")), ended])
    steps["off"] = steps["run_id"].isin(first.index)
    steps["step"] = steps["run_id"].map(first).fillna(steps["last"]).astype(int)
    return steps.loc[:, ["run_id", "step", "off"]]


def soonest(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells at the learning rate of their point at which these take off after the fewest steps.

    cells: rows of `takeoffs` with point and lr.  A cell that never takes off counts with its last step.
    A rate with fewer cells than the fullest of its point is not chosen.
    """
    rates = cells.groupby(["point", "lr"], as_index=False).agg(mean=("step", "mean"), count=("step", "size"))
    whole = rates.loc[rates["count"] == rates.groupby("point")["count"].transform("max")]
    best = whole.sort_values(["mean", "lr"]).drop_duplicates("point")
    return cells.merge(best[["point", "lr"]], on=["point", "lr"])


def censored(cells: pd.DataFrame) -> CensoredData:
    """Return the steps of rows of `takeoffs` as scipy takes them."""
    off = cells["off"].to_numpy(bool)
    steps = cells["step"].to_numpy(float)
    return CensoredData(uncensored=steps[off], right=steps[~off])


def share_off(cells: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (steps, shares): Kaplan and Meier's estimate of the share that has taken off by each step."""
    curve = ecdf(censored(cells)).cdf
    return curve.quantiles, curve.probabilities


def compared(cells: pd.DataFrame, by: str = "series") -> pd.DataFrame:
    """Compare every two groups of cells by the two-sided log-rank test, an approximation for many cells.

    a, b; off_a, cells_a (and of b): how many of how many have taken off; p (NaN: all took off at one step,
    or none did), and p_holm over all rows, where NaN counts as 1.
    """
    groups = {str(name): group for name, group in cells.groupby(by)}
    rows = []
    for a, b in combinations(groups, 2):
        counts = [n for name in (a, b) for n in (sum(groups[name]["off"].tolist()), len(groups[name]))]
        with np.errstate(invalid="ignore"):
            p = logrank(censored(groups[a]), censored(groups[b])).pvalue
        rows.append((a, b, *counts, p))
    result = pd.DataFrame(rows, columns=["a", "b", "off_a", "cells_a", "off_b", "cells_b", "p"])
    return result.assign(p_holm=holm(result["p"].fillna(1.0).to_numpy(float)))
