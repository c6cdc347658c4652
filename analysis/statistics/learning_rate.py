"""Choose the learning rate of each point by the mean over seeds on validation; test scores are never used."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..records.cells import seed_scores, slices

TIE = 1e-9
CLOSE = 0.05  # accuracy below the best, within which a learning rate is good


def profile(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per (point, lr): valid_accuracy (mean over seeds of the mean over validation slices),
    seeds, diverged (how many of them), complete (as many seeds as the fullest lr of the point).

    table: as `analysis.records.cells.identify` returns it.  A diverged seed counts as 0.
    Raises ValueError where no cell has a validation split.
    """
    names = slices(table, "valid")
    if not names:
        raise ValueError("These cells have no validation split, and the learning rate is chosen on it.")
    scores = seed_scores(table, "valid", names)
    grid = scores.groupby(["point", "lr"], as_index=False).agg(
        valid_accuracy=("accuracy", "mean"), seeds=("seed", "size"), diverged=("diverged", "sum")
    )
    grid["complete"] = grid["seeds"] == grid.groupby("point")["seeds"].transform("max")
    return grid


def choose(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point: its chosen lr and how it was chosen.

    valid_accuracy: mean over seeds at that lr; lrs: the size of the grid; single_lr: there was no choice;
    lr_edge: "low" or "high" if the lr is the lowest or highest of three or more (the true best may then lie
    outside), else "" (also with two, where each is an end); lr_on_edge: whether lr_edge is not "";
    diverged_in_grid: diverged cells over all lrs.

    Learning rates with fewer seeds than the fullest of the point are not chosen: a mean over fewer seeds may
    win by luck.  Of equally good learning rates the one nearest the middle of the grid is chosen, so that a
    plateau that touches the edge (everything solved) raises no flag.
    """
    return pd.DataFrame([_best(point, grid) for point, grid in profile(table).groupby("point")])


def good_range(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point: the width of the range of learning rates that come close to the best.

    good_low, good_high: ends of the unbroken range around the chosen rate with a valid accuracy of at least
    the best minus CLOSE; decades: its width, a lower limit; decades_most: an upper limit, between the
    rates just outside, inf where the range is open, that is, touches the edge of the grid; open_low,
    open_high: on which side.  A grid of one rate has a width of 0, open on both sides.
    """
    return pd.DataFrame([_good(point, grid) for point, grid in profile(table).groupby("point")])


def _good(point: object, grid: pd.DataFrame) -> dict[str, object]:
    grid = grid.sort_values("lr", ignore_index=True)
    rates = np.log10(grid["lr"].to_numpy(float))
    scores = np.where(grid["complete"], grid["valid_accuracy"], -np.inf)
    good = scores >= scores.max() - CLOSE - TIE
    first = last = _middle_best(scores)
    while first > 0 and good[first - 1]:
        first -= 1
    while last < len(good) - 1 and good[last + 1]:
        last += 1
    outside = np.concatenate([[-np.inf], rates, [np.inf]])
    return {
        "point": point, "good_low": grid["lr"][first], "good_high": grid["lr"][last],
        "decades": rates[last] - rates[first], "decades_most": outside[last + 2] - outside[first],
        "open_low": first == 0, "open_high": last == len(good) - 1,
    }  # fmt: skip


def _best(point: object, grid: pd.DataFrame) -> dict[str, object]:
    grid = grid.sort_values("lr", ignore_index=True)
    scores = np.where(grid["complete"], grid["valid_accuracy"], -np.inf)
    place = _middle_best(scores)
    edge = "" if len(grid) < 3 else {0: "low", len(grid) - 1: "high"}.get(place, "")
    return {
        "point": point, "lr": grid["lr"][place], "valid_accuracy": grid["valid_accuracy"][place],
        "lrs": len(grid), "lr_edge": edge, "lr_on_edge": edge != "", "single_lr": len(grid) == 1,
        "diverged_in_grid": sum(grid["diverged"]),
    }  # fmt: skip


def _middle_best(scores: NDArray[np.float64]) -> int:
    """Return the index of the highest score; of equal scores, the one nearest the middle."""
    tied = np.flatnonzero(scores >= scores.max() - TIE).tolist()
    return min(tied, key=lambda i: abs(i - (len(scores) - 1) / 2))
