"""Chance: what is scored without memory of which key had which value, by a guess among the row's values."""

import re

import numpy as np
import pandas as pd

MARGIN = 0.02  # above chance, within which a point counts as one at chance
SAID = "chance, 1/n: one of the row's n values"


def chance(slices: list[str]) -> float:
    """The mean over the slices of 1/n, where n is num_kv_pairs; NaN where one of them does not say it."""
    pairs = [re.search(r"\bnum_kv_pairs=(\d+)", name) for name in slices]
    return float(np.mean([1 / int(found[1]) if found else np.nan for found in pairs]))


def above(points: pd.DataFrame) -> pd.Series:
    """Whether the accuracy is above chance, by MARGIN; True where chance is not known."""
    if "chance" not in points:
        return pd.Series(True, index=points.index)
    low = points["accuracy"].to_numpy(float) < points["chance"].to_numpy(float) + MARGIN
    return pd.Series(~low, index=points.index)
