"""Collect every record of results folders in tables: `python -m zoo collect RESULTS`, to CSV and Parquet."""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.common.checks import one_line
from zoo.common.foreign import inert
from zoo.common.terminal import USAGE, add_results, command, command_parser, counted, say
from zoo.config.settings import flat
from zoo.results import store
from zoo.results import table as results_table
from zoo.results.atomic import replaced_by
from zoo.results.columns import GROUP, KEYS, RECORD, SLICE
from zoo.results.home import meant, shown
from zoo.results.reading import Reading, left_out

HELP = """Every record of results folders in one table, one row a cell, and in another
their scores by group.

  python -m zoo collect results/demo             results/demo/collected.csv,
                                                 .parquet, .groups.csv,
                                                 .groups.parquet
  python -m zoo collect results/demo --out all   all.csv, all.parquet, ...
  python -m zoo collect results/a b.zip          both, with a column `results`

Columns are named as in result.json, inner keys behind a dot (versions.torch),
lists as JSON; and
  mixer.<key>, task.<key>      a setting, as on the command line; empty where
                               there is none
  <split>.<slice>.<metric>     test.seq_len=64,num_kv_pairs=4.accuracy; also
                               row_accuracy, exact_rows, loss, coverage,
                               answers, rows.  Empty where a cell has no such
                               slice
What each means: docs/numbers.md; `zoo.results.load` has the same with a row for
each slice.  The table of groups has a row for each value of a group, as
`zoo.results.load_groups`; join it by run_id.  A diverged cell is a row (status
is "diverged", its accuracies are empty).  A cell that failed or is not through
is none; it is counted, and failed ones are named.  Parquet needs duckdb:
pip install 'zoo-recall[query]'.  A word that a spreadsheet would compute
("=HYPERLINK(..)") has a ' before it, in all files.

Exit code: 0; 2 when nothing was written; 3 when it was, without records that
cannot be read."""

KIND = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
SPLITS = ("valid.", "test.")
GROUPS = {name: column.holds for name, column in ({"run_id": RECORD["run_id"]} | GROUP).items()}
HOME = "results"  # the column of the folder, where several are collected
NAMED = 20  # failed cells, in the report


def main(argv: Sequence[str] | None = None) -> int:
    """Write the tables; return 0, 3 where a record was left out, or 2 with a line on what is wrong."""
    parser = command_parser("zoo collect", HELP)
    add_results(parser)
    parser.add_argument("--out", type=Path, metavar="NAME", help="of files (default: collected in the first)")
    args = parser.parse_intermixed_args(argv)
    try:
        lines, readings = collect(meant(args.results), _stem(args))
    except ValueError as error:
        return say(str(error), USAGE)
    except OSError as error:
        place = error.filename or _stem(args)
        return say(f"cannot write {shown(place)} ({error.strerror}): give another place with --out.", USAGE)
    print("\n".join(lines))
    wrong = [line for reading in readings for line in reading.wrong]
    notes = [line for reading in readings for line in reading.notes]
    return left_out(wrong, notes)


def _stem(args: Namespace) -> Path:
    """Return the path of the files without their endings: in the results folder, or beside an archive."""
    first: Path = args.results[0]
    stem: Path = args.out or (first / "collected" if first.is_dir() else first)
    return stem.with_suffix("") if stem.suffix in (".csv", ".parquet") else stem


def collect(homes: Sequence[Path], stem: Path) -> tuple[list[str], list[Reading]]:
    """Write stem.csv, stem.groups.csv and .parquet of each; return the lines of a report, and the Readings.

    With several folders each row begins with its folder, in the column `results`.
    ValueError: no such folder, or no record that can be read; nothing is written then.
    """
    readings = [Reading(home) for home in homes]
    failed, unfinished = _not_done(homes)
    stem.parent.mkdir(parents=True, exist_ok=True)
    place: dict[str, type] = {HOME: str} if len(homes) > 1 else {}
    records = [(dict.fromkeys(place, str(of.results)), record) for of in readings for _, record in of]
    if not records:
        damaged = next((reading for reading in readings if reading.wrong), None)
        if not damaged and (failed or unfinished):
            raise ValueError(
                f"results folder {shown(homes[0])} holds no finished cell: {len(failed)} failed, "
                f"{unfinished} are not through; python -m zoo.status says more."
            )
        raise ValueError((damaged or readings[0]).nothing())
    cells = pd.DataFrame([home | as_row(record) for home, record in records], dtype=object)
    table = cells.reindex(columns=sorted(cells, key=_rank))
    rows = [home | {"run_id": record["run_id"]} | row for home, record in records for row in record["groups"]]
    columns = place | GROUPS
    groups = pd.DataFrame(rows, columns=list(columns), dtype=object)
    kinds = {name: _kind(name, [value for value in table[name] if pd.notna(value)]) for name in table}
    lines = [f"{counted(len(table), 'record')}, {len(kinds)} columns: {_written(table, stem, kinds)}"]
    groups_stem = stem.with_name(f"{stem.name}.groups")
    lines += [f"{len(groups)} scores by group: {_written(groups, groups_stem, columns)}"]
    return lines + _absent(failed, unfinished), readings


def _not_done(homes: Sequence[Path]) -> tuple[list[str], int]:
    """Return a line on each cell that failed, and the number of other unfinished cells."""
    failed, unfinished = [], 0
    for folder in (folder for home in homes if home.is_dir() for folder in store.folders(home)):
        if store.is_done(folder):
            continue
        if (folder / "error.txt").is_file():
            failed.append(f"{shown(folder.name)}: {store.error(folder)}")
        else:
            unfinished += (folder / "config.yaml").exists()
    return failed, unfinished


def _kind(name: str, values: Iterable[Any]) -> type:
    """Return a column's type: by the schema of a record, or, for a setting, by its values."""
    score = SLICE.get(name.rpartition(".")[2]) if name.startswith(SPLITS) else None
    if column := RECORD.get(name, score):
        return column.holds
    kinds = set(map(type, values))
    return float if kinds == {int, float} else next(iter(kinds)) if len(kinds) == 1 else str


def as_row(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as one row: dotted column -> scalar or None."""
    inner = ("mixer_settings", "task_settings", "slices", "groups")
    row = dict(flat("", {key: value for key, value in record.items() if key not in inner}))
    row |= dict(flat("mixer", record["mixer_settings"]))
    row |= dict(flat("task", record["task_settings"]))
    for entry in record["slices"]:
        name = f"{entry['split']}.{results_table.slice_name(entry['slice'])}"
        row |= {f"{name}.{key}": value for key, value in entry.items() if key not in ("split", "slice")}
    return row


def _rank(name: str) -> tuple[int, int]:
    """Return the sort key of a column; columns of equal rank keep the order in which they were met."""
    if name == HOME:
        return -1, 0
    if name in KEYS:
        return 0, KEYS.index(name)
    if name.startswith(("mixer.", "task.")):
        return 1, 0
    return (3, 0) if name.startswith(SPLITS) else (2, 0)


def _written(table: pd.DataFrame, stem: Path, kinds: Mapping[str, type]) -> str:
    """Write the CSV, and from it the Parquet file; return their names, or why there is only the CSV."""
    with replaced_by(Path(f"{stem}.csv")) as part:
        table.map(inert).rename(columns=inert).to_csv(part, index=False, lineterminator="\n")
    try:
        import duckdb
    except ImportError:
        return f"{shown(stem)}.csv (for a Parquet file too: pip install 'zoo-recall[query]')"
    path = stem.with_name(f"{stem.name}.parquet")
    columns = ", ".join(f"{_quoted(inert(name))}: '{KIND[kind]}'" for name, kind in kinds.items())
    form = "header = true, auto_detect = false, delim = ',', quote = '\"', escape = '\"'"
    rows = f"SELECT * FROM read_csv({_quoted(f'{stem}.csv')}, {form}, columns = {{{columns}}})"
    kind = "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 10000)"  # a group is held in memory
    try:
        with replaced_by(path) as part, duckdb.connect(config={"threads": 1}) as connection:
            connection.execute(f"COPY ({rows}) TO {_quoted(str(part))} {kind}")
    except duckdb.Error as error:
        raise ValueError(f"{stem}.csv is written, {path} cannot be: {one_line(error)[:200]}") from None
    return f"{shown(stem)}.csv and {path.name}"


def _quoted(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _absent(failed: list[str], unfinished: int) -> list[str]:
    lines = [f"cells that failed, and have no row ({len(failed)}):"] if failed else []
    lines += [f"  {line}" for line in failed[:NAMED]]
    lines += [f"  and {len(failed) - NAMED} more"] if len(failed) > NAMED else []
    lines += [f"not through ({unfinished}): python -m zoo.status says which"] if unfinished else []
    return lines


if __name__ == "__main__":
    command(main)
