"""Read a CSV that a person wrote beside the results, such as expectations or claims."""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from zoo.common.checks import one_line

LARGEST = 2**24  # bytes


def number(text: str) -> float:
    """Return the number that a text writes; NaN: it writes none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def read(path: Path, needed: Sequence[str], also: str = "") -> pd.DataFrame:
    """Return the rows of a CSV, every field as text, and its path in `attrs`; text after a # is a comment.

    also: words on further columns that the file may have, for the message.
    ValueError, one line: the file is missing, too large, no table, without rows, or lacks a column.
    """
    if not path.is_file():
        raise ValueError(f"There is no {path}: give a CSV with the columns {', '.join(needed)}{also}.")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, at most {LARGEST:,} are read.")
    try:
        table = pd.read_csv(path, comment="#", dtype=str, keep_default_na=False)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} is no CSV ({one_line(error)}).") from None
    absent = [name for name in needed if name not in table]
    if absent:
        raise ValueError(f"{path} lacks the column {absent[0]!r}: it needs {', '.join(needed)}.")
    if table.empty:
        raise ValueError(f"{path} has its columns and no row below them: write one a line.")
    table.attrs["path"] = str(path)
    return table
