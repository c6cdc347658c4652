"""Which kernels have passed all their gpu tests here, from pytest's own reports, and how near they came."""

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from benchmarks.gpu.commands import Place, write_csv
from benchmarks.gpu.machine import PACKAGES, footer

COLUMNS = ("passed", "failed", "skipped")


def write_tested(place: Place) -> None:
    """tests.md: a row a file of tests, or a package of one; errors.csv: a row an output or gradient."""
    folder = place.folder("tests")
    reports = sorted(folder.glob("*.xml"))
    if reports:
        text = table(counts(reports))
        (folder / "tests.md").write_text(f"{text}\n\n{footer(place, 'tests')}\n")
    if rows := [row for report in reports for row in errors(report)]:
        write_csv(folder / "errors.csv", rows)


def counts(reports: Iterable[Path]) -> dict[str, Counter[str]]:
    """File of tests, with the package where a test is of one -> how many of each end."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, end in chain.from_iterable(map(_ends, reports)):
        found[name][end] += 1
    return dict(found)


def _ends(report: Path) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(report).iter("testcase"):
        place = case.get("classname") or case.get("name") or ""
        file = next((part for part in place.split(".") if part.startswith("test_")), place)
        name = (case.get("name") or "").partition("[")[0]
        package = next((f" {one}" for one in PACKAGES if name.endswith(f"_{one}")), "")
        tags = {child.tag for child in case}
        end = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        yield f"{file}{package}", end


def errors(report: Path) -> Iterator[dict[str, str]]:
    """What each test held against its definition (tests/kernels/conftest.py)."""
    for case in ElementTree.parse(report).iter("testcase"):
        for one in case.iter("property"):
            if one.get("name") == "distances":
                for what, error, bound in json.loads(one.get("value") or "[]"):
                    test = f"{case.get('classname')}::{case.get('name')}"
                    yield {"test": test, "of": what, "error": f"{error:.3g}", "bound": f"{bound:.3g}"}


def proven(ends: Mapping[str, int]) -> bool:
    """Whether every test of the file has run and passed."""
    return bool(ends["passed"]) and not ends["failed"] and not ends["skipped"]


def table(found: Mapping[str, Counter[str]]) -> str:
    lines = ["| tests | passed | failed | skipped | all have passed |", "|---|---|---|---|---|"]
    for file, ends in sorted(found.items()):
        numbers = " | ".join(str(ends[end]) for end in COLUMNS)
        lines.append(f"| {file} | {numbers} | {'yes' if proven(ends) else 'no'} |")
    return "\n".join(lines)
