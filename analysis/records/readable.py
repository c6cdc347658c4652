"""Read the sound records of folders and archives, and list what is wrong with the others."""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from zoo.common.foreign import inert
from zoo.results import store
from zoo.results.home import meant
from zoo.results.outcome import UNSCORED

from . import configs, sources
from .older import alike
from .where import where


class Readable(NamedTuple):
    """The result of reading.  table: `configs.table` of the sound records.  wrong: a line for each of the
    others.  records: the sound ones.  notes: for one home, a line for each folder with another name than
    its record; for several, a line that counts the cells that are in two of them; and for each config that
    cannot be read."""

    table: pd.DataFrame
    wrong: list[str]
    notes: list[str]
    records: list[dict[str, Any]]


def readable(*homes: Path) -> Readable:
    """Read the sound records of results folders and archives, also of those inside a folder without cells.

    A cell that two homes have with different scores is kept twice, the second time under its folder's name.
    ValueError: a home does not exist, or nothing can be read.
    """
    if len(homes) == 1 and meant(homes) == [*homes]:
        reading = store.Reading(homes[0])
        read = [*reading]
        records = sorted(alike(record for _, record in read), key=lambda record: record["run_id"])
        if not records:
            raise ValueError(reading.nothing())
        folders = {record["run_id"]: folder for folder, record in read}
        wrong, notes = reading.wrong, reading.notes
    else:
        several = sources.read(homes)
        wrong = [f"{problem.where}: {problem.why}" for problem in several.problems]
        notes = [f"{several.twice} cells are in two of them and count once."] if several.twice else []
        records = sorted(several.records, key=lambda record: record["run_id"])
        folders = several.folders
    table, unread = configs.table(records, folders)
    return Readable(table, wrong, [*notes, *map(": ".join, unread.items())], records)


def filtered(table: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Return the rows for which a condition of `analysis.records.where` holds; all rows for "".  In the table
    of `zoo.results.load` it cannot ask for scores, which would leave out slices of a cell.
    ValueError: it is no condition, or no row is left."""
    try:
        hidden = [name for name in UNSCORED if name in table and "split" in table]
        rows = table.loc[where(table.drop(columns=hidden), condition).index] if condition else table
    except ValueError as error:
        raise ValueError(f"--where ({condition!r}) is no condition: {error}.") from None
    if rows.empty:
        raise ValueError(f"--where ({condition!r}) leaves no cell of {table['run_id'].nunique()}: loosen it.")
    return rows


def as_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV, as every command of analysis/ writes it: equal numbers give equal bytes.

    A word that a spreadsheet would compute ("=HYPERLINK(..)") gets a ' before it; numbers stay numbers.
    """
    words = [str(column) for column in table if table[column].dtype.kind in "OUT"]
    quiet = {name: [inert(value) for value in table[name].tolist()] for name in words}
    safe = table.assign(**{name: pd.Series(cells, table.index, object) for name, cells in quiet.items()})
    return safe.rename(columns=inert).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def once(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with each cell once, and a line that names the cells that were there twice.

    A folder and a copy of it, merged under other names, hold the same record, which counts once.
    ValueError: two records claim to be the same cell, and disagree; or two cells have equal point, learning
    rate and seed but different run_ids, and would be taken for two seeds.
    """
    rows = table.drop_duplicates()
    again = rows.loc[rows.duplicated(["run_id", "split", "slice"]), "run_id"]
    if len(again):
        raise ValueError(
            f"Two records say that they are {again.iloc[0]}, and their numbers differ: "
            "give their folders or archives one at a time."
        )
    cells, keys = rows.drop_duplicates("run_id"), ["point", "lr", "seed"]
    twins = cells.loc[cells.duplicated(keys, keep=False)]
    if len(twins):
        one = twins.loc[(twins[keys] == twins[keys].iloc[0]).all(axis=1)]
        first, second = one["run_id"].iloc[:2]
        raise ValueError(
            f"{first} and {second} are one point, learning rate and seed twice, which is no second seed: "
            f"leave one out with --where \"run_id != '{second}'\"."
        )
    twice = sorted(table.loc[table.duplicated(), "run_id"].unique())
    note = f"{len(twice)} cells are there twice and count once: {listed(twice)}."
    return rows, [note] if twice else []


def listed(names: list[str], most: int = 4, between: str = "; ") -> str:
    """Return "a; b; c; d and 7 more", with semicolons because names may have commas."""
    rest = len(names) - most
    return between.join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
