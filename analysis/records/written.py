"""A CSV that somebody wrote beside the results: what was expected, what was claimed."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd


def read(path: Path, needed: Sequence[str], also: str = "") -> pd.DataFrame:
    """Its rows, every field as text; lines that start with # are comments.

    also: columns that the file may have beside the needed, for the message.
    ValueError, one line: it is not there, or lacks a column.
    """
    if not path.is_file():
        raise ValueError(f"There is no {path}: give a CSV with the columns {', '.join(needed)}{also}.")
    table = pd.read_csv(path, comment="#", dtype=str, keep_default_na=False)
    absent = [name for name in needed if name not in table]
    if absent:
        raise ValueError(f"{path} lacks the column {absent[0]!r}: it needs {', '.join(needed)}.")
    return table
