"""The records of a folder that can be read, and what is wrong with the others."""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.where import where
from zoo import results

NEEDED = (*results.KEYS, "mixer_settings", "task_settings", "slices")
COMPUTED = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet takes for a formula
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-")


def readable(home: Path) -> tuple[pd.DataFrame, list[str]]:
    """(what `zoo.results.load` makes of the sound records, one line on each of the others).

    home: a results folder or archive.  ValueError: it is not there, or none of its records is sound.
    """
    found, wrong = [], []
    for folder in results.cells(home):
        if results.is_done(folder):
            try:
                found.append(sound(folder))
            except (ValueError, OSError) as error:
                wrong.append(str(error))
    if wrong and not found:
        raise ValueError(f"No record in {home} can be read; the first of {len(wrong)}: {wrong[0]}")
    if not found:
        raise ValueError(f"results folder {home} holds no finished cell: run `python -m zoo.run` first.")
    return results.table(found), wrong


def sound(folder: results.Home) -> dict[str, Any]:
    """The record of a cell.  ValueError: something in it is missing."""
    record = results.read(folder)
    absent = [key for key in NEEDED if key not in record]
    if absent:
        raise ValueError(
            f"{folder / 'result.json'} lacks {absent[0]!r}: delete its folder and run the same command again."
        )
    return record


def kept(table: pd.DataFrame, condition: str) -> pd.DataFrame:
    """The rows for which a condition of `analysis.where` holds; all for "".  ValueError: it is none, or
    nothing is left.
    """
    try:
        rows = where(table, condition) if condition else table
    except ValueError as error:
        raise ValueError(f"--where ({condition!r}) is no condition: {error}.") from None
    if rows.empty:
        raise ValueError(f"--where ({condition!r}) leaves no cell of {table['run_id'].nunique()}: loosen it.")
    return rows


def as_csv(table: pd.DataFrame) -> str:
    """A table as every command of analysis/ writes it: the same numbers, the same bytes.

    A word that a spreadsheet would compute ("=HYPERLINK(..)") has a ' before it; numbers stay numbers.
    """
    words = [str(column) for column in table if table[column].dtype.kind in "OUT"]
    inert = {name: [_inert(value) for value in table[name].tolist()] for name in words}
    safe = table.assign(**{name: pd.Series(cells, table.index, object) for name, cells in inert.items()})
    return safe.rename(columns=_inert).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _inert(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(COMPUTED) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def once(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """(the table with each cell once, a line that names those that were there twice).

    A folder and a copy of it, merged under other names, hold the same record: it counts once.
    ValueError: two records say that they are the same cell, and disagree; or two cells differ in nothing
    (point, learning rate and seed are equal) but their run_id, and would pass for two seeds.
    """
    rows = table.drop_duplicates()
    again = rows.loc[rows.duplicated(["run_id", "split", "slice"]), "run_id"]
    if len(again):
        raise ValueError(
            f"Two records say that they are {again.iloc[0]}, and their numbers differ: delete one's folder."
        )
    cells = rows.drop_duplicates("run_id")
    twins = cells.loc[cells.duplicated(["point", "lr", "seed"], keep=False)]
    if len(twins):
        one = twins.loc[
            (twins[["point", "lr", "seed"]] == twins[["point", "lr", "seed"]].iloc[0]).all(axis=1)
        ]
        first, second = one["run_id"].iloc[:2]
        raise ValueError(
            f"{first} and {second} are one point, learning rate and seed twice, which is no second seed: "
            f"leave one out with --where \"run_id != '{second}'\"."
        )
    twice = sorted(table.loc[table.duplicated(), "run_id"].unique())
    note = f"{len(twice)} cells are there twice and count once: {listed(twice)}."
    return rows, [note] if twice else []


def listed(names: list[str], most: int = 4) -> str:
    """ "a; b; c; d and 7 more": names may have commas."""
    rest = len(names) - most
    return "; ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
