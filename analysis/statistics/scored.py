"""Score every point of a folder that may hold several loads; each load is judged by itself.

A study of several loads, one load a run, has a learning rate for each point and load.  Here the rows of all
loads are in one table, with the mixer's settings as columns, for pictures with a facet per load.
"""

from collections.abc import Callable, Sequence

import pandas as pd

from ..records import cells
from . import learning_rate
from .points import points
from .uncertainty import at_chosen

SCORES = ("accuracy", "low", "high", "interval", "seeds", "seed_accuracies", "run_ids", "chance")
Slices = Callable[[pd.DataFrame], list[list[str]]]


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point: `points.points` on the mean of all its test slices, and its settings."""
    return _scored(table, lambda load: [cells.slices(load, "test")])


def of_one_load(table: pd.DataFrame) -> pd.DataFrame:
    """Return `means` of results of one load.  ValueError: they are of several."""
    rows = means(table)
    if len(set(rows["load"])) != 1:
        raise ValueError("These results are of several loads: keep one with --where.")
    return rows


def alone(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point and test slice, with its settings and a column for each key of the slice."""
    rows = _scored(table, lambda load: [[name] for name in cells.slices(load, "test")])
    keys = table.drop_duplicates("slice")[["slice", *slice_keys(table)]]
    return rows.merge(keys, on="slice", how="left", validate="many_to_one")


def of_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point and seed, at the chosen learning rate: the mean of all test slices."""
    frames = []
    for load in cells.loads(cells.named(table)).values():
        scores = at_chosen(load, learning_rate.choose(load), "test", cells.slices(load, "test"))
        about = load.drop_duplicates("point")
        columns = ["point", *(c for c in about if c not in scores and c not in ("split", "accuracy"))]
        frames.append(scores.merge(about[columns], on="point", how="left"))
    return pd.concat(frames, ignore_index=True)


def answered(answers: pd.DataFrame, table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    """Return the answers to an evaluation of cells at their point's chosen learning rate, and their point.

    answers: of `load_evaluations`; keys: columns that tell the rows of one cell apart.  ValueError: they do
    not, because the cell was asked several questions; or there is no such cell.
    """
    joined = answers.merge(at_chosen_rate(table)[["run_id", "point"]], on="run_id", validate="many_to_one")
    if joined.empty:
        raise ValueError(f"{name} was asked of no cell at the learning rate that was chosen: ask all cells.")
    if joined.duplicated(["run_id", *keys]).any():
        raise ValueError(f"{name} was asked in several ways: keep the answers to one, in evaluations/.")
    return joined


def at_chosen_rate(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row of `cells.named` for each cell at its point's chosen learning rate."""
    loads = cells.loads(cells.named(table)).values()
    chosen = pd.concat([learning_rate.choose(load) for load in loads])
    of_cells = pd.concat(loads).drop_duplicates("run_id")
    return of_cells.merge(chosen[["point", "lr"]], on=["point", "lr"])


def slice_keys(table: pd.DataFrame) -> list[str]:
    """Return the keys of a slice, which are columns: seq_len, num_kv_pairs."""
    return [part.split("=")[0] for part in str(table["slice"].iloc[0]).split(",")]


def _scored(table: pd.DataFrame, which: Slices) -> pd.DataFrame:
    frames = []
    for load in cells.loads(cells.named(table)).values():
        chosen = learning_rate.choose(load)
        rows = [points(load, chosen, split="test", slices=names) for names in which(load)]
        about = load.drop_duplicates("point")[["point", *cells.settings(load)]]
        frames.append(pd.concat(rows, ignore_index=True).merge(about, on="point", how="left"))
    return pd.concat(frames, ignore_index=True)
