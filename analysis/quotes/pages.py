"""Compare the numbers that the pages quote with the records, entry by entry."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml

from .. import claims
from ..records.where import where
from . import formulas, tables

NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
_NUMBER = re.compile(rf"(?<![\w.`/-]){NUMBER}(?![\w`/]|[.,-]\d)")
_NOT_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+|arXiv \d+\.\d+", re.S)


@dataclass(frozen=True)
class Entry:
    """A part of a page, and the formulas of its numbers."""

    text: str
    of: str = ""
    cells: str = ""
    where: str = ""
    ahead: str = ""
    behind: str = ""
    slice: str = claims.MEAN
    formula: str = ""
    no_record: str = ""


@dataclass
class Report:
    """The result for one page.  wrong: a line on each entry that does not agree with the records.

    computed, unrecorded: positions on the page of the numbers that were computed, and of those whose records
    were not kept.
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
        except (ValueError, OSError, ZeroDivisionError) as error:
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
    values = list(formulas.values(entry.formula, _rows(root, entry)))
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


def _rows(root: Path, entry: Entry) -> pd.DataFrame:
    if entry.ahead:
        return tables.between(root, entry.of, entry.cells, entry.ahead, entry.behind, entry.slice)
    table = tables.table(root, entry.of, entry.cells)
    return where(table, entry.where) if entry.where else table


def open_numbers(root: Path, page: str, report: Report) -> list[tuple[int, str]]:
    """Return the numbers of a page's prose that no entry covers: line number and number."""
    text = (root / page).read_text()
    prose = _NOT_PROSE.sub(lambda match: re.sub(r"\S", "|", match[0]), text)
    covered = report.computed | report.unrecorded
    uncovered = []
    for match in _NUMBER.finditer(prose):
        in_one_line = " ".join((text[: match.start()] + "|").split())
        if len(in_one_line) - 1 not in covered:
            uncovered.append((text.count("\n", 0, match.start()) + 1, match[0]))
    return uncovered
