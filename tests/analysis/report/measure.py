"""Measure how large the report is, and how long headless Chromium takes until its picture is drawn.

python -m tests.analysis.report.measure > benchmarks/tables/report.md
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from analysis.report.page import report
from tests.analysis import crowd
from tests.analysis.report.chromium import launched, opened

CELLS = (40, 400, 4000)
OPENED = 5  # times; the median counts
FIRST = "performance.getEntriesByName('picture')[0]?.startTime"


def measured(browser: Any, home: Path, cells: int, times: int = 1) -> tuple[float, float, float]:
    """Return the megabytes of a page of so many cells, and the seconds of making and of opening it."""
    crowd.write(home, cells)
    path, began = home / "report.html", time.perf_counter()
    path.write_text(report([home])[0], encoding="utf-8")
    made, first = time.perf_counter() - began, []
    for _ in range(times):
        with opened(browser, path, bypass_csp=True) as page:  # `wait_for_function` evaluates a text
            page.wait_for_function(FIRST)
            first.append(page.evaluate(FIRST) / 1000)
    return path.stat().st_size / 1e6, made, statistics.median(first)


def main() -> None:
    print("| cells | page | made in | first picture |\n|---|---|---|---|")
    with launched() as browser, tempfile.TemporaryDirectory() as place:
        for cells in CELLS:
            size, made, first = measured(browser, Path(place) / str(cells), cells, OPENED)
            print(f"| {cells:,} | {size:.1f} MB | {made:.2f} s | {first:.2f} s |", flush=True)
        words = f"Chromium {browser.version.split('.')[0]}, headless, {os.cpu_count()} cores"
    print("\nFirst picture: from opening the file to the mark that the page sets, the median of 5.")
    print(f"`python -m tests.analysis.report.measure`; {words}.")


if __name__ == "__main__":
    main()
