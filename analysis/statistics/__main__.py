"""Print what the points of a results folder show together, as tables; each whole as CSV.

    python -m analysis.statistics results/
    python -m analysis.statistics results/ --recall 0.8 --where "d_model == 64"

points.csv       solved seeds, the width of the good learning rates, how often each is on the frontier
slices.csv       the same frontier for each slice alone; the bits recalled for a scalar of state
series.csv       the area under each series' own frontier; the state it needs to recall
equal_state.csv  accuracy of each series at equal states
pairs.csv        every two series at equal state, seed by seed
capacity.csv     pairs recalled by each point, exponents.csv: how that grows with the state
distances.csv    accuracy against how far back the key stands; groups.csv: of the other kinds of answers
group_means.csv  the mean of such a group over its answers (micro) and over its kinds (macro)

Loads without a common axis are judged separately.  Exit code: 0; 1 when there was nothing to judge or it
could not be written; 3 when some records could not be read or a cell scores above what is possible
(`analysis.statistics.bounds`).
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from rich.markup import escape

from zoo.common.table_text import add_forms, print_table
from zoo.common.terminal import add_results, command, command_parser, console, fitting, say, slim
from zoo.results import store

from .. import output
from ..records import cells
from ..records.readable import as_csv, filtered, once, readable
from ..records.written import number
from . import bounds, capacity, equal, groups, learning_rate, paired, scored
from .frontier import takes_part
from .points import points
from .seeds import solved
from .uncertainty import at_chosen

ABOUT = ["load", "series", "d_model", "knobs", "state_resident"]
SHOWN = {
    "points": [
        *ABOUT, "accuracy", "low", "high", "seeds", "solved", "frontier_share", "lr", "lr_edge", "decades",
        "decades_most",
    ],
    "series": [
        "load", "series", "area", "area_low", "area_high", "points", "state", "state_low", "state_high",
        "censored",
    ],
    "pairs": ["load", "a", "b", "state", "difference", "low", "high", "p", "least_p", "pairs"],
    "capacity": [
        "load", "series", "d_model", "knobs", "state", "pairs", "low", "high", "censored", "loads", "seeds",
    ],
    "exponents": ["load", "series", "exponent", "low", "high", "states", "censored", "drawn"],
}  # fmt: skip
TABLES = (*SHOWN, "slices", "equal_state", "distances", "groups", "group_means")
AT_MOST = 40  # rows of a table that are printed; the CSV has all


def statistics(table: pd.DataFrame, recall: float = capacity.RECALL) -> dict[str, pd.DataFrame]:
    """Return name -> table, made from the table of `zoo.results.load`; tables without rows are left out.

    recall: the accuracy at which states and capacities are read off.  Raises ValueError as `cells.named`.
    """
    parts: dict[str, list[pd.DataFrame]] = {}
    for name, load in cells.loads(cells.named(table)).items():
        for key, frame in _of_load(load, recall).items():
            frame = frame.drop(columns="load", errors="ignore")
            frame.insert(0, "load", name)
            parts.setdefault(key, []).append(frame)
    tables = {key: pd.concat(frames, ignore_index=True) for key, frames in parts.items()}
    tables |= _capacities(table, recall)
    return {key: frame for key, frame in tables.items() if len(frame)}


def _capacities(table: pd.DataFrame, recall: float) -> dict[str, pd.DataFrame]:
    """Return "capacity" and "exponents" of the cells of each task: those that differ in their load alone."""
    frames: dict[str, list[pd.DataFrame]] = {"capacity": [], "exponents": []}
    for load, alike in table.groupby(np.array(cells.load_names(table, tests=False))):
        try:
            cells.load_axis(alike)
        except ValueError:  # there is no load whose capacity could be read off
            continue
        frames["capacity"].append(capacity.capacities(alike, recall).assign(load=load))
        frames["exponents"].append(capacity.fits(alike, recall).assign(load=load))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items() if parts}


def kinds(counted: pd.DataFrame, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return `by_group` of every load with the columns ABOUT of its points: "distances", and for all other
    groups "groups" and their "group_means".  counted: of `zoo.results.load_groups`.
    """
    parts: dict[str, list[pd.DataFrame]] = {}
    loads = cells.loads(cells.named(table)).values()
    for name, load in product(groups.names(counted), loads):
        rows = groups.by_group(counted, name, load, learning_rate.choose(load))
        about = load.drop_duplicates("point")[["point", *ABOUT]]
        if name != "distance":
            rows = rows.rename(columns={name: "value"}).assign(group=name)
            parts.setdefault("group_means", []).append(about.merge(groups.means(rows), on="point"))
        kind = "distances" if name == "distance" else "groups"
        parts.setdefault(kind, []).append(about.merge(rows, on="point"))
    return {name: pd.concat(frames, ignore_index=True) for name, frames in parts.items()}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_intermixed_args(arguments)
    try:
        table, unread, notes, records = readable(*options.results)
        table, twice = once(filtered(table, options.where))
        tables = statistics(table, options.recall)
        tables |= kinds(store.groups(records), table)
        folder = output.folder(options.results[0], "statistics", options.out)
        done = list(_store(folder, tables))
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)
    for name, columns in SHOWN.items():
        if name in tables:
            _print(tables[name], columns, name, options.form)
    print(*done, sep="\n")
    for note in (*notes, *twice):
        print(f"note: {note}", file=sys.stderr)
    wrong = bounds.in_words(bounds.violations(table))
    for line in [*(f"not read: {each}" for each in unread), *wrong]:
        print(f"error: {line}", file=sys.stderr)
    return 3 if unread or wrong else 0


def _store(folder: Path, tables: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Write each table, and remove an earlier run's of a name that has no rows now; yield what was done."""
    for path in (folder / f"{name}.csv" for name in TABLES):
        if path.stem in tables:
            yield f"wrote {output.write(path, as_csv(tables[path.stem]).encode())}"
        elif path.exists():
            path.unlink()
            yield f"removed {path}, which has no rows now"


def _of_load(load: pd.DataFrame, recall: float) -> dict[str, pd.DataFrame]:
    chosen, slices = learning_rate.choose(load), cells.slices(load, "test")
    shown = points(load, chosen, split="test", slices=slices)
    scores = at_chosen(load, chosen, "test", slices)
    tables = {
        "points": _points(load, shown, scores),
        "slices": pd.concat([_slice(load, chosen, name) for name in slices], ignore_index=True),
    }
    states = shown.loc[takes_part(shown) & (shown["state_resident"] > 0), "state_resident"]
    if states.nunique() > 1:
        low, high = float(states.min()), 2 * float(states.max())  # the largest state counts for a doubling
        tables["series"] = equal.area(shown, scores, low=low, high=high).merge(
            equal.state_at(shown, scores, recall).rename(columns={"low": "state_low", "high": "state_high"}),
            on="series",
        )  # fmt: skip
        tables["pairs"] = paired.at_equal_state(shown, scores)
        powers = 2.0 ** np.arange(np.ceil(np.log2(low)), np.floor(np.log2(high)) + 1)
        tables["equal_state"] = equal.accuracy_at(shown, scores, powers.tolist())
    return tables


def _points(load: pd.DataFrame, shown: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    of_point = {name: group["accuracy"].to_numpy(float) for name, group in scores.groupby("point")}
    shares = np.array([solved(of_point[name]) for name in shown["point"]])
    shown = shown.assign(solved=shares[:, 0], solved_low=shares[:, 1], solved_high=shares[:, 2])
    return shown.merge(learning_rate.good_range(load), on="point")


def _slice(load: pd.DataFrame, chosen: pd.DataFrame, name: str) -> pd.DataFrame:
    shown = points(load, chosen, split="test", slices=[name])
    of_slice = bounds.of_mqar(load).loc[load["slice"] == name].drop_duplicates("point")
    keys = [column for column in (*scored.slice_keys(load), bounds.VOCAB_SIZE) if column in load]
    return bounds.recall(shown.merge(of_slice[["point", *keys]], on="point"))


def _print(frame: pd.DataFrame, columns: list[str], title: str, form: str) -> None:
    columns = [name for name in columns if name in frame and not (name == "load" and all(frame[name] == ""))]
    table = slim(title)
    for name in columns:
        justify = "left" if frame[name].dtype.kind in "OUT" else "right"
        table.add_column(name, no_wrap=name != "load", justify=justify)
    for row in frame.head(AT_MOST).to_dict("records"):
        table.add_row(*(escape(_word(row[name])) for name in columns))
    print_table(form, table, fitting(table, columns[:2:-1]))  # the CSV has all
    screen = console()
    if len(frame) > AT_MOST:
        screen.print(f"{len(frame) - AT_MOST} more in {title}.csv", style="dim")
    screen.print()


def _word(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if np.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _share(word: str) -> float:
    """Read a word of the command line as a number above 0 and at most 1."""
    value = number(word)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"(={word}) must be an accuracy, above 0 and at most 1.")
    return value


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = command_parser("analysis.statistics", summary, details)
    add_results(parser)
    parser.add_argument("--out", type=Path, help="where the CSV files go (default: RESULTS/statistics)")
    add_forms(parser)
    parser.add_argument("--where", default="", help='keep some cells only, such as "d_model == 64"')
    parser.add_argument("--recall", type=_share, default=capacity.RECALL, help="least accuracy of a capacity")
    return parser


if __name__ == "__main__":
    command(main)
