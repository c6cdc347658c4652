"""Helpers that open the report in headless Chromium and read what it shows."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MARKS = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path (.ci/chromium installs it)"),
]
FAULTS = Path(__file__).with_name("faults.js").read_text()  # of an element, in words: [] is none
SEEDS = 5  # of each point, so many that intervals are bootstrapped


@contextmanager
def launched() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (dev extra)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, path: Path, address: str = "", **about: Any) -> Iterator[Any]:
    """Open the page in a tab; assert that its console stays empty and that only the file is fetched."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, **about)
    page.set_default_timeout(120_000)  # a machine may be busy
    messages: list[str] = []

    def is_local(url: str) -> bool:
        return url.split("#")[0] == path.as_uri() or url.startswith(("blob:", "data:"))

    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: messages.append(request.url) if not is_local(request.url) else None)
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.goto(path.as_uri() + address)
    yield page
    settle(page)
    assert messages == []
    page.close()


def settle(page: Any) -> None:
    """Wait until all changes are drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def points(page: Any) -> pd.DataFrame:
    settle(page)
    return pd.read_csv(io.StringIO(page.evaluate("csv(points)")), dtype=str, keep_default_na=False)


def as_csv(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    text = frame[columns].to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def spot(page: Any, plot: str, at: str) -> list[float]:
    """Return the place on the screen of [x, y] on a plot's axes."""
    return page.evaluate(
        f"""() => {{
          const {{ xaxis, yaxis }} = byId("{plot}")._fullLayout, [x, y] = {at};
          const box = byId("{plot}").getBoundingClientRect();
          return [box.x + xaxis._offset + xaxis.l2p(x), box.y + yaxis._offset + yaxis.l2p(y)];
        }}"""
    )


def marks(page: Any) -> int:
    """Return the number of points in the picture."""
    settle(page)
    return page.evaluate("document.querySelectorAll('#picture .scatterlayer .point').length")


def untick(page: Any, home: str, *names: str) -> None:
    for name in names:
        page.locator(f"#{home} .choice label", has_text=name).first.locator("input").uncheck()


def choose(page: Any, *names: str) -> None:
    """Put the first point of each name beside the others."""
    for name in names:
        page.locator("#points tbody tr", has_text=name).first.locator("input").check()


def drag(page: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


def rows_of(page: Any, card: str) -> list[list[str]]:
    lines = page.locator(f"#{card} tbody tr")
    return lines.evaluate_all("(all) => all.map((line) => [...line.cells].map((cell) => cell.innerText))")
