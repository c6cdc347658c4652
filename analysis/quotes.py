"""Compute again every number that the documents quote, from the records that it came from.

    python -m analysis.quotes              docs/quotes.yaml against docs/results, from the top of a checkout
    python -m analysis.quotes --open       and list the numbers of the pages that no entry covers

The file says, page by page, which numbers stand where and how each is computed:

    README.md:
    - of: mini_based_fig2                  a table: see below; for all entries until the next `of`
    - text: Based has {} ({} to {})        a part of the page; {} stands for a number, {?} for one that another
                                           entry computes
      where: mixer == 'based'              the rows of the table that it is about, as in --where
      is: (accuracy, low, high)[mixer.feature_dim == 2]

`is` gives a value for each {} in turn, by expressions with ; between them.  COLUMN[CONDITION] is the column of
the rows for which the condition holds, and (A, B)[CONDITION] several columns of each; seed_accuracies is a
value for each seed, sorted(..) brings them in order.  mean, min, max, sum, count, abs and round(.., digits)
take them together; +, -, * and / join single values.  `it >= ..` and `it <= ..` say that the page gives a
bound.  Nothing else is read, and nothing is executed.

Tables:  STUDY          the points of docs/results/STUDY.zip, mean of their test slices
         STUDY slices   the same, one row a test slice
         STUDY cells    the same, one row a cell, at every learning rate
         STUDY claims   sweeps/STUDY.claims.csv, tested
         STUDY equal    every two series compared at equal state; `STUDY equal_paper` by the published count
         FOLDER/NAME    docs/figures/FOLDER/NAME.csv, which CI holds to the archive; field, recall_gap: no folder
         published/NAME analysis/published/NAME.csv, read from the figures of others
`cells` beside `of` keeps some cells only.  `ahead` and `behind` (and `slice`) in place of `where` compare two
points seed by seed, as a claim does.  `no_record: WHY` in place of `is` marks numbers whose records were not
kept.

A number is right where it is the computed one, rounded to the digits that the page shows.
Exit code: 0; 1 where a number is wrong or cannot be computed.
"""

import argparse
import ast
import operator
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import claims
from analysis.figures.gallery import Study
from analysis.records import readable, written
from analysis.records.cells import identify, seed_scores, slices
from analysis.records.where import where
from analysis.statistics import learning_rate, scored
from analysis.statistics.paired import at_equal_state, compare
from analysis.statistics.points import points
from analysis.statistics.uncertainty import at_chosen
from zoo.terminal import command

NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
_NUMBER = re.compile(rf"(?<![\w.`/-]){NUMBER}(?![\w`/]|[.,-]\d)")
_NOT_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+|arXiv \d+\.\d+", re.S)
FIGURES = ("field", "recall_gap")  # tables of several studies
_SLACK = 1e-5  # of the value: tables are written with six digits

Values = list[float]


@dataclass(frozen=True)
class Entry:
    """What a page says in one place, and how its numbers are computed."""

    text: str
    of: str
    cells: str = ""
    where: str = ""
    ahead: str = ""
    behind: str = ""
    slice: str = claims.MEAN
    formula: str = ""
    no_record: str = ""


@dataclass
class Report:
    """wrong: a line on each number that is not what the records give.

    computed, unrecorded: where on the page the numbers stand that were computed, and whose records were not
    kept.
    """

    wrong: list[str] = field(default_factory=list)
    computed: set[int] = field(default_factory=set)
    unrecorded: set[int] = field(default_factory=set)


def read(path: Path) -> dict[str, list[Entry]]:
    """Return the entries of each page.  ValueError names a key that no entry has."""
    return {page: list(_entries(page, rows)) for page, rows in yaml.safe_load(path.read_text()).items()}


def _entries(page: str, rows: list[dict[str, str]]) -> Iterator[Entry]:
    base: dict[str, str] = {}
    for row in rows:
        given = {("formula" if key == "is" else key): str(value) for key, value in row.items()}
        if unknown := given.keys() - Entry.__dataclass_fields__.keys():
            raise ValueError(f"{page}: an entry has no {', '.join(sorted(unknown))}.")
        if "text" in given:
            yield Entry(**(base | given))
        else:
            base = given


def check(root: Path, page: str, entries: list[Entry]) -> Report:
    """Compare every number that the entries name on a page with its records."""
    text = " ".join((root / page).read_text().split())
    report = Report()
    for entry in entries:
        try:
            _check(root, text, entry, report)
        except (ValueError, OSError) as error:
            report.wrong.append(f"{page}: {entry.text!r}: {error}")
    return report


def _check(root: Path, text: str, entry: Entry, report: Report) -> None:
    pattern = re.escape(" ".join(entry.text.split())).replace(r"\{\}", f"({NUMBER})")
    places = list(re.finditer(pattern.replace(r"\{\?\}", NUMBER), text))
    if len(places) != 1:
        raise ValueError(f"the page says this {len(places) or 'no'} times: it must say it once")
    numbers = list(places[0].groups())
    where_they_stand = {places[0].start(i + 1) for i in range(len(numbers))}
    if entry.no_record:
        report.unrecorded |= where_they_stand
        return
    values = list(_values(root, entry))
    if len(values) != len(numbers):
        raise ValueError(f"it has {len(numbers)} numbers, and {len(values)} values were computed: {values}")
    report.computed |= where_they_stand
    off = [
        f"{number} is {value}"
        for number, value in zip(numbers, values, strict=True)
        if not value.fits(number)
    ]
    if off:
        raise ValueError(", ".join(off))


@dataclass(frozen=True)
class Value:
    """What the records give for a number: the value itself, or a bound (<=, >=) that the page must keep."""

    value: float
    bound: str = "=="

    def fits(self, number: str) -> bool:
        """Return whether a number as the page writes it is this one, rounded to its digits."""
        digits, _, power = number.replace(",", "").partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        apart = float(number.replace(",", "")) - self.value
        slack = unit / 2 + _SLACK * max(abs(self.value), unit)
        return (self.bound == ">=" or apart <= slack) and (self.bound == "<=" or apart >= -slack)

    def __str__(self) -> str:
        return f"{self.value:.6g}" if self.bound == "==" else f"to be {self.bound} {self.value:.6g}"


def _values(root: Path, entry: Entry) -> Iterator[Value]:
    rows = _rows(root, entry)
    for formula in filter(None, (part.strip() for part in entry.formula.split(";"))):
        node = _parsed(formula)
        bound = "=="
        if isinstance(node, ast.Compare):
            (op,), (right,) = node.ops, node.comparators
            bound = {ast.GtE: ">=", ast.LtE: "<="}.get(type(op), "")
            if not bound or not isinstance(node.left, ast.Name) or node.left.id != "it":
                raise ValueError(f"{formula!r} is no bound: write it >= .. or it <= ..")
            node = right
        yield from (Value(value, bound) for value in _computed(node, rows))


def _parsed(formula: str) -> ast.expr:
    try:
        return ast.parse(formula, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{formula!r} is no expression") from None


def _rows(root: Path, entry: Entry) -> pd.DataFrame:
    if entry.ahead:
        table = Study(_archive(root, entry.of), entry.cells).table
        pair = [claims.scores(table, side, entry.slice) for side in (entry.ahead, entry.behind)]
        return pd.DataFrame([compare(*pair)])
    table = _table(root, entry.of, entry.cells)
    return where(table, entry.where) if entry.where else table


def _archive(root: Path, study: str) -> Path:
    return root / "docs" / "results" / f"{study}.zip"


@cache
def _table(root: Path, of: str, cells: str) -> pd.DataFrame:
    """Return a table by its name in the file.  ValueError or OSError: there is none."""
    if "/" in of or of in FIGURES:
        at = root / "analysis" if of.startswith("published/") else root / "docs" / "figures"
        return readable.kept(pd.read_csv(at / f"{of}.csv", comment="#"), cells)
    study, _, kind = of.partition(" ")
    if kind not in _MAKERS:
        raise ValueError(f"there is no table {of!r}")
    home = _archive(root, study)
    if kind == "claims":
        claimed = written.read(root / "sweeps" / f"{study}.claims.csv", claims.COLUMNS)
        return claims.check(readable.readable(home).table, claimed)
    return _MAKERS[kind](Study(home, cells).table)


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    scores = seed_scores(table, "test", slices(table, "test")).drop(columns="coverage")
    about = table.drop_duplicates("run_id").drop(columns=["point", "lr", "seed", "split", "accuracy"])
    return scores.merge(about, on="run_id")


def _at_equal_state(table: pd.DataFrame, x: str = "state_resident") -> pd.DataFrame:
    named, chosen = identify(table), learning_rate.choose(table)
    names = slices(named, "test")
    return at_equal_state(
        points(named, chosen, split="test", slices=names), at_chosen(named, chosen, "test", names), x
    )


_MAKERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "": scored.means,
    "slices": scored.alone,
    "cells": _cells,
    "equal": _at_equal_state,
    "equal_paper": lambda table: _at_equal_state(table, "state_paper"),
}


_TOGETHER: dict[str, Callable[[Values], Values]] = {
    "mean": lambda values: [sum(values) / len(values)],
    "min": lambda values: [min(values)],
    "max": lambda values: [max(values)],
    "sum": lambda values: [sum(values)],
    "count": lambda values: [float(len(values))],
    "abs": lambda values: [abs(value) for value in values],
    "sorted": sorted,
}
_JOINS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def _computed(node: ast.expr, rows: pd.DataFrame) -> Values:
    """Return the values of one expression over the rows.  ValueError: a form that is not read here."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return [float(node.value)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [-value for value in _computed(node.operand, rows)]
    if isinstance(node, ast.BinOp) and type(node.op) in _JOINS:
        left, right = (_one(side, rows) for side in (node.left, node.right))
        return [_JOINS[type(node.op)](left, right)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, node.args, rows)
    if isinstance(node, ast.Subscript):
        return _columns(node.value, where(rows, ast.unparse(node.slice)))
    return _columns(node, rows)


def _called(name: str, args: list[ast.expr], rows: pd.DataFrame) -> Values:
    if name == "round" and len(args) == 2:
        return [round(_one(args[0], rows), int(_one(args[1], rows)))]
    values = [value for arg in args for value in _computed(arg, rows)]
    if name not in _TOGETHER:
        raise ValueError(f"there is no function {name}: {', '.join(_TOGETHER)} and round")
    if not values and name != "count":
        raise ValueError(f"{name} is of no value: no row is left")
    return _TOGETHER[name](values)


def _one(node: ast.expr, rows: pd.DataFrame) -> float:
    values = _computed(node, rows)
    if len(values) != 1:
        raise ValueError(f"{ast.unparse(node)} is {len(values)} values, and one is needed")
    return values[0]


def _columns(node: ast.expr, rows: pd.DataFrame) -> Values:
    """Return the values of a column, or of several side by side, row by row."""
    names = [ast.unparse(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]
    if absent := [name for name in names if name not in rows]:
        raise ValueError(f"there is no column {absent[0]!r}")
    return [value for row in rows[names].itertuples(index=False) for cell in row for value in _numbers(cell)]


def _numbers(cell: Any) -> Values:
    """Return the numbers of a field: one, or those that its words are ("0.25 0.5")."""
    try:
        return [float(word) for word in str(cell).split()]
    except ValueError:
        raise ValueError(f"{cell!r} is no number") from None


def open_numbers(root: Path, page: str, report: Report) -> list[tuple[int, str]]:
    """Return the numbers of a page's prose that no entry covers: the line, and what stands there."""
    text = (root / page).read_text()
    prose = _NOT_PROSE.sub(lambda match: re.sub(r"\S", "`", match[0]), text)
    covered = report.computed | report.unrecorded
    found = []
    for match in _NUMBER.finditer(prose):
        before = " ".join(
            (text[: match.start()] + "|").split()
        )  # as the page was read, where the number begins
        if len(before) - 1 not in covered:
            line = text.count("\n", 0, match.start()) + 1
            found.append((line, match[0]))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Check every page of the file, and print a line on each: how many numbers were computed."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.quotes", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("file", nargs="?", type=Path, default=Path("docs/quotes.yaml"), help="the entries")
    parser.add_argument("--root", type=Path, default=Path(), help="the top of the checkout")
    parser.add_argument("--open", action="store_true", help="list the numbers that no entry covers")
    options = parser.parse_args(arguments)
    try:
        pages = read(options.root / options.file)
    except (ValueError, OSError, yaml.YAMLError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    reports = {page: check(options.root, page, entries) for page, entries in pages.items()}
    for page, report in reports.items():
        _print(page, report, open_numbers(options.root, page, report), options.open)
    return int(any(report.wrong for report in reports.values()))


def _print(page: str, report: Report, rest: list[tuple[int, str]], listed: bool) -> None:
    for line in report.wrong:
        print(f"error: {line}", file=sys.stderr)
    fractions = sum("." in number for _, number in rest)
    print(
        f"{page}: {len(report.computed)} numbers computed again, {len(report.unrecorded)} without a record, "
        f"{len(rest)} not covered ({fractions} of them with a decimal point)"
    )
    for line, number in rest if listed else []:
        print(f"  {page}:{line}: {number}")


if __name__ == "__main__":
    command(main)
