"""How large the report is, and how long a reader waits for it in headless Chromium.

python -m tests.analysis.report.measure > benchmarks/tables/report.md
"""

import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from analysis.report.page import report
from tests.analysis import crowd
from tests.analysis.report.chromium import CHROMIUM, opened

CELLS = (40, 400, 4000)
OPENED = 5  # times; the median counts
FIRST = "performance.getEntriesByName('picture')[0]?.startTime"
WAITS = {  # what a reader does -> how, in the page; until the picture stands again
    "one seed less": "document.querySelector('#seeds input').click()",
    "another axis": "(byId('axis').selectedIndex = 2, changed())",
    "a point's details": "choose(points[0].place)",
}
WAITED = """async (act) => {
  const began = performance.now();
  eval(act);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await showing;
  return performance.now() - began;
}"""


def row(browser: Any, home: Path, cells: int) -> str:
    """Return a line of the table, for a page of so many cells."""
    crowd.write(home, cells)
    path, began = home / "report.html", time.perf_counter()
    path.write_text(report([home])[0], encoding="utf-8")
    seconds, first = [time.perf_counter() - began], []
    for _ in range(OPENED):
        with opened(browser, path, bypass_csp=True) as page:
            page.wait_for_function(FIRST)
            first.append(page.evaluate(FIRST) / 1000)
            waits = [page.evaluate(WAITED, act) / 1000 for act in WAITS.values()]
    seconds += [statistics.median(first), *waits]
    return f"| {cells:,} | {path.stat().st_size / 1e6:.1f} MB | {' | '.join(f'{s:.2f}' for s in seconds)} |"


def main() -> None:
    head = ["cells", "page", "made in", "first picture", *WAITS]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for cells in CELLS:
            with tempfile.TemporaryDirectory() as home:
                print(row(browser, Path(home) / "results", cells), flush=True)
        version = browser.version
        browser.close()
    print("\nSeconds; the first picture: from opening the file to the mark that the page sets, median of 5.")
    words = f"headless Chromium {version.split('.')[0]}, {os.cpu_count()} cores"
    print(f"`python -m tests.analysis.report.measure`; {words}, Python {platform.python_version()}.")


if __name__ == "__main__":
    main()
