"""Make screenshots of the report at three widths, light and dark.

python -m tests.analysis.report.screenshots docs/results/mini_based_fig2.zip docs/figures/report
"""

import sys
import tempfile
from itertools import product
from pathlib import Path

from tests.analysis.report.chromium import choose, launched, opened, settle
from tests.analysis.report.pages import saved

WIDTHS, SCHEMES, HEIGHT = (390, 800, 1400), ("light", "dark"), 1250


def shoot(archive: Path, out: Path) -> None:
    """Write the screenshots, with three points side by side."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, launched() as browser:
        path = saved(Path(place) / "report.html", archive)
        for width, scheme in product(WIDTHS, SCHEMES):
            with opened(browser, path, color_scheme=scheme) as page:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.reload()  # as a screen of that size meets it
                choose(page, "Based", "Mamba-2", "Sliding window")
                page.evaluate("scrollTo(0, 0)")
                settle(page)
                page.wait_for_timeout(1000)  # pictures move into their places
                page.screenshot(path=out / f"{width}-{scheme}.png")


if __name__ == "__main__":
    shoot(Path(sys.argv[1]), Path(sys.argv[2]))
