"""Which kernels have passed all their gpu tests here, from pytest's own reports."""

import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from benchmarks.gpu.commands import Place
from benchmarks.gpu.machine import footer

COLUMNS = ("passed", "failed", "skipped")


def write_tested(place: Place) -> None:
    """tests.md: a row a file of tests."""
    reports = sorted(place.folder("tests").glob("*.xml"))
    if reports:
        text = table(counts(reports))
        (place.folder("tests") / "tests.md").write_text(f"{text}\n\n{footer(place, 'tests')}\n")


def counts(reports: Iterable[Path]) -> dict[str, Counter[str]]:
    """File of tests -> how many of each end."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, end in chain.from_iterable(map(_ends, reports)):
        found[name][end] += 1
    return dict(found)


def _ends(report: Path) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(report).iter("testcase"):
        place = case.get("classname") or case.get("name") or ""
        file = next((part for part in place.split(".") if part.startswith("test_")), place)
        tags = {child.tag for child in case}
        yield file, "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"


def proven(ends: Mapping[str, int]) -> bool:
    """Whether every test of the file has run and passed."""
    return bool(ends["passed"]) and not ends["failed"] and not ends["skipped"]


def table(found: Mapping[str, Counter[str]]) -> str:
    lines = ["| tests | passed | failed | skipped | PROVEN may be set |", "|---|---|---|---|---|"]
    for file, ends in sorted(found.items()):
        numbers = " | ".join(str(ends[end]) for end in COLUMNS)
        lines.append(f"| {file} | {numbers} | {'yes' if proven(ends) else 'no'} |")
    return "\n".join(lines)
