"""What a reader of the report waits for: 5,000 cells in headless Chromium.

    python -m benchmarks.report [--cells 5000] [--out benchmarks/tables/report.md]

Opening is measured from the navigation to the first whole picture; a filter from the click to the next frame
after the new picture.  Seconds are those of the clock and those of the page's main thread: the latter is what
remains on a machine that does nothing else.  The results are made up (tests/analysis/crowd.py).
"""

import argparse
import platform
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.bench.machine import processor

CLICKS = {
    "one seed less": "byId('seeds').querySelector('input').click()",
    "another axis": "byId('axis').value = 'touched'; byId('axis').dispatchEvent(new Event('change'))",
    "one slice less": "byId('slices').querySelector('input').click()",
    "a family less": "document.querySelector('.choice.family input').click()",
    "a point's details, the first time": "await chosenAndShown(points[3].place)",
    "a point's details, again": "await chosenAndShown(points[9].place)",
}
SETTLED = (
    "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
)
HELPER = "window.chosenAndShown = async (place) => { only([[place, null]]); await chosenAnew(); }"


@dataclass(frozen=True)
class Wait:
    what: str
    seconds: float
    cpu_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=5000)
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, made = written(Path(folder), args.cells)
        waits = [made, *measured(path)]
        size = path.stat().st_size / 1e6
    text = table(waits, args.cells, size)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def written(folder: Path, cells: int) -> tuple[Path, Wait]:
    """The page of so many cells, and how long it took to write."""
    from analysis.report.page import report
    from tests.analysis import crowd

    home = crowd.write(folder / "results", cells)
    began, began_cpu = time.perf_counter(), time.process_time()
    text, _ = report([home])
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    return path, Wait(
        "`python -m analysis.report`", time.perf_counter() - began, time.process_time() - began_cpu
    )


def measured(path: Path) -> list[Wait]:
    """Opening, then one change after the other."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("error: no chromium on the path: run .ci/chromium first.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        waits = [_timed("opening it", devtools, lambda: _open(page, path))]
        page.evaluate(HELPER)
        for what, code in CLICKS.items():
            waits.append(_timed(what, devtools, lambda code=code: page.evaluate(_settled(code))))
        browser.close()
    return waits


def _open(page: Any, path: Path) -> None:
    page.goto(path.as_uri())
    page.evaluate(_settled(""))


def _settled(code: str) -> str:
    return f"async () => {{ {code}; {SETTLED}; }}"


def _timed(what: str, devtools: Any, act: Any) -> Wait:
    before, began = _main_thread(devtools), time.perf_counter()
    act()
    return Wait(what, time.perf_counter() - began, _main_thread(devtools) - before)


def _main_thread(devtools: Any) -> float:
    """Seconds that the page's main thread has computed."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def table(waits: list[Wait], cells: int, size: float) -> str:
    return "\n".join(
        [
            f"| {cells:,} cells, a page of {size:.1f} MB | seconds | of a processor |",
            "|---|---|---|",
            *(f"| {wait.what} | {wait.seconds:.2f} | {wait.cpu_seconds:.2f} |" for wait in waits),
            "",
            f"`python -m benchmarks.report`; {processor()}, headless Chromium, Python "
            f"{platform.python_version()}.",
        ]
    )


if __name__ == "__main__":
    main()
