"""The learning rate of each point: chosen on validation, by the mean over seeds; test is never asked."""

import numpy as np
import pandas as pd

from analysis.cells import seed_scores, slices

TIE = 1e-9


def profile(table: pd.DataFrame) -> pd.DataFrame:
    """One row per (point, lr): valid_accuracy (mean over seeds of the mean over validation slices), seeds,
    diverged (how many of them), complete (as many seeds as the fullest lr of the point).

    table: as `analysis.cells.identify` returns it.  A diverged seed counts as 0.
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
    """One row a point: its lr and how it was found.

    valid_accuracy: mean over seeds at that lr; lrs: the size of the grid; single_lr: there was no choice;
    lr_edge: "low" or "high" when it is the lowest or highest of a grid of several (the true best may then lie
    outside), else ""; lr_on_edge: that as a flag; diverged_in_grid: diverged cells over all lrs.

    Learning rates with fewer seeds than the fullest of the point do not take part: a mean over fewer seeds
    wins by luck.  Of equal learning rates the one nearest the middle of the grid is taken, so that a plateau
    that touches the edge (everything solved) raises no flag.
    """
    rows = [_best(point, grid) for point, grid in profile(table).groupby("point")]
    return pd.DataFrame(rows)


def _best(point: object, grid: pd.DataFrame) -> dict[str, object]:
    grid = grid.sort_values("lr", ignore_index=True)
    scores = np.where(grid["complete"], grid["valid_accuracy"], -np.inf)
    tied = np.flatnonzero(scores >= scores.max() - TIE).tolist()
    middle = (len(grid) - 1) / 2
    place = min(tied, key=lambda i: abs(i - middle))
    edge = "" if len(grid) == 1 else {0: "low", len(grid) - 1: "high"}.get(place, "")
    return {
        "point": point,
        "lr": grid["lr"][place],
        "valid_accuracy": grid["valid_accuracy"][place],
        "lrs": len(grid),
        "lr_edge": edge,
        "lr_on_edge": edge != "",
        "single_lr": len(grid) == 1,
        "diverged_in_grid": sum(grid["diverged"]),
    }
