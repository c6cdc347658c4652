"""Compare expected accuracies with those of a folder of records.

    python -m analysis.expected results/demo sweeps/demo.expected.csv [--strict]

The CSV has one row an expectation.  Lines that start with # are comments.  Its columns:

    accuracy    what is expected on test: the mean over seeds at the learning rate that validation chose
    tolerance   how far from it still counts as equal
    slice       "seq_len=64,num_kv_pairs=8", or "mean" for the unweighted mean of all slices
    any other   a column of `zoo.results.load` (mixer, d_model, mixer.window, ...): together they name one
                point; an empty field leaves that column open

Exit code: 0; with --strict 1 when a row is off or missing; 1 when nothing can be read; 3 when some records
cannot be.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from rich.table import Table

from zoo.common.table_text import add_forms, print_table
from zoo.common.terminal import command, command_parser, console, say, slim
from zoo.results.reading import left_out

from .records import cells, written
from .records.readable import filtered, readable
from .statistics import learning_rate
from .statistics.points import points

NEEDED = ("accuracy", "tolerance", "slice")
MEAN = "mean"
ROUNDING = 1e-9
OK, OFF, MISSING = "ok", "OFF", "MISSING"


def read(path: Path) -> pd.DataFrame:
    """Read the CSV described above; fields that name the point stay text.  ValueError: no file or column."""
    return written.read(path, NEEDED, also=" and mixer").astype({"accuracy": float, "tolerance": float})


def check(table: pd.DataFrame, expected: pd.DataFrame) -> pd.DataFrame:
    """Return `expected` with got (NaN where nothing matches), deviation and mark ("ok", "OFF", "MISSING").

    table: of `zoo.results.load`.  Raises ValueError for an unknown column or slice, and for a row that
    several points match.
    """
    table = cells.identify(table)
    keys = [str(name) for name in expected.columns if name not in NEEDED]
    unknown = [name for name in keys if name not in table]
    if unknown:
        columns = ", ".join(map(str, table.columns))
        raise ValueError(f"No column {unknown[0]!r} in these results: choose among {columns}.")
    chosen = learning_rate.choose(table)
    known = cells.slices(table, "test")
    scores = {name: _accuracies(table, chosen, name, known) for name in dict.fromkeys(expected["slice"])}
    one_each = table.drop_duplicates("point").to_dict("records")
    words = {row["point"]: {name: cells.word(row[name]) for name in keys} for row in one_each}
    rows = expected.to_dict("records")
    got = np.array([_got(row, keys, words, scores[row["slice"]]) for row in rows])
    deviation = got - expected["accuracy"].to_numpy()
    near = np.abs(deviation) <= expected["tolerance"].to_numpy() + ROUNDING
    mark = np.where(np.isnan(got), MISSING, np.where(near, OK, OFF))
    return expected.assign(got=got, deviation=deviation, mark=mark)


def render(checked: pd.DataFrame) -> Table:
    """Return the expected and the found accuracies as a table for the terminal."""
    keys = [str(name) for name in checked.columns if name not in (*NEEDED, "got", "deviation", "mark")]
    slices = ["slice"] if set(checked["slice"]) != {MEAN} else []
    table = slim()
    for name in ("point", *slices, "expected", "got", "deviation", "tolerance", ""):
        table.add_column(name, no_wrap=True)
    for row in checked.to_dict("records"):
        words = (
            row[key] if key == "mixer" else f"{key.removeprefix('mixer.')}={row[key]}"
            for key in keys
            if row[key]
        )
        numbers = [f"{row['accuracy']:.3f}", f"{row['got']:.3f}", f"{row['deviation']:+z.3f}"]
        fields = [*(row[name] for name in slices), *numbers, f"{row['tolerance']:.3f}", row["mark"]]
        table.add_row(" ".join(words), *fields, style=None if row["mark"] == OK else "bold red")
    return table


def main(arguments: list[str] | None = None) -> int:
    parser = command_parser("analysis.expected", __doc__)
    parser.add_argument("results", type=Path, help="the folder that zoo.run wrote to")
    parser.add_argument("expected", type=Path, help="the CSV with what is expected")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a row is off or missing")
    parser.add_argument("--where", default="", help='keep some cells only, such as "d_model == 64"')
    add_forms(parser)
    options = parser.parse_intermixed_args(arguments)
    try:
        records, *unread, _ = readable(options.results)
        checked = check(filtered(records, options.where), read(options.expected))
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)
    print_table(options.form, render(checked))
    off = int(np.sum(checked["mark"].to_numpy() != OK))
    console().print(f"{len(checked) - off} of {len(checked)} as expected.")
    incomplete = left_out(*unread)
    return 1 if off and options.strict else incomplete


def _accuracies(table: pd.DataFrame, chosen: pd.DataFrame, name: str, known: list[str]) -> dict[str, float]:
    if name != MEAN and name not in known:
        raise ValueError(f"No slice {name!r} in the test split: choose among {'; '.join([MEAN, *known])}.")
    rows = points(table, chosen, split="test", slices=known if name == MEAN else [name])
    return dict(zip(rows["point"].tolist(), rows["accuracy"].tolist(), strict=True))


def _got(row: dict, keys: list[str], words: dict[str, dict], scores: dict[str, float]) -> float:
    fits = [point for point in scores if all(row[key] in ("", words[point][key]) for key in keys)]
    if len(fits) > 1:
        wanted = ", ".join(f"{key}={row[key]}" for key in keys if row[key])
        raise ValueError(f"{len(fits)} points fit {wanted}: add columns to the CSV until one does.")
    return scores[fits[0]] if fits else float("nan")


if __name__ == "__main__":
    command(main)
