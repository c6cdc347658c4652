"""Give the chance level: the accuracy without memory of the row.

Where a row shows n pairs of key and value, chance is a guess among its n values; elsewhere it is the best
guess that has not seen the row, which the task gives (`zoo.tasks.base.Task.chance`).
"""

import re
from typing import Any

import numpy as np
import pandas as pd

MARGIN = 0.02  # above chance, within which a point counts as one at chance
ONE_OF_N = "chance, 1/n: one of the row's n values"
OTHERWISE = "chance: the best guess that has not seen the row"


def chance(table: pd.DataFrame, slices: list[str]) -> float:
    """Return the mean chance over the slices; NaN if it is unknown for one.  table: has a column slice."""
    return float(np.mean([_of(table, name) for name in slices]))


def chance_in_words(table: pd.DataFrame, slices: list[str]) -> str:
    """Name the kind of chance in these slices, for a legend."""
    return ONE_OF_N if all(_of_pairs(name) == _of(table, name) for name in slices) else OTHERWISE


def with_chance(rows: pd.DataFrame, table: pd.DataFrame, slices: list[str]) -> pd.DataFrame:
    """Return the rows with a column chance, and a column guess that names the guess if it is not ONE_OF_N."""
    words = chance_in_words(table, slices)
    rows = rows.drop(columns="guess", errors="ignore").assign(chance=chance(table, slices))
    return rows if words == ONE_OF_N else rows.assign(guess=words)


def _of(table: pd.DataFrame, name: str) -> float:
    known = table.loc[table["slice"] == name, "chance"].to_numpy(float) if "chance" in table else np.array([])
    return float(np.fmax.reduce([_of_pairs(name), *known[:1]]))


def _of_pairs(name: str) -> float:
    """Return 1/n, where n is num_kv_pairs; NaN: the slice has none."""
    pairs = re.search(r"\bnum_kv_pairs=(\d+)", name)
    return 1 / int(pairs[1]) if pairs else np.nan


def above(points: pd.DataFrame) -> pd.Series:
    """Return whether the accuracy is above chance, by MARGIN; True where chance is not known."""
    if "chance" not in points:
        return pd.Series(True, index=points.index)
    return ~pd.Series(at_chance(points["accuracy"], points["chance"]), index=points.index, dtype=bool)


def at_chance(accuracy: Any, chance: Any) -> Any:
    """Return whether an accuracy is no better than chance, by MARGIN; False where chance is not known."""
    return accuracy < chance + MARGIN
