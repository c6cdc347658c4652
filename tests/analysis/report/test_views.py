"""The page in Chromium: each of its views at 390, 800 and 1400 px, light and dark."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from analysis.report.page import report
from tests.analysis.report.chromium import FAULTS, MARKS, opened, settle

pytestmark = MARKS
VIEWS = {  # name -> where it stands
    **{"filters": "aside", "head": "header", "picture": "#app main > section", "chosen": "#detail"},
    **{name: f"#{name}-section" for name in ("evaluations", "answers", "again", "pairs", "cells", "failed")},
    **{"diverged": "#diverged-section", "unread": "#unread-section", "points": "#points", "key": "#key"},
}
LOOKS = list(product((390, 800, 1400), ("light", "dark")))


@pytest.fixture(scope="module")
def faults(browser: Any, asked: Path, home: Path) -> dict[Any, list[str]]:
    """All views open at once, on one page of two folders that have the same cells with other scores."""
    path = asked / "views.html"
    path.write_text(report([asked, home])[0], encoding="utf-8")
    found = {}
    with opened(browser, path, bypass_csp=True) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        page.wait_for_function(
            "byId('by-colour').options.length > 3 && byId('evaluation').options.length > 2"
        )
        for series in ("Attention", "Based", "Hyena"):
            page.locator("#points tbody tr", has_text=series).first.locator("input").check()
        page.select_option("#by-facet", "family")
        page.select_option("#by-colour", "d_model")
        page.wait_for_selector("#answers tbody tr")
        page.locator("#answers tbody tr").first.click()
        for width, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            settle(page)
            for view, place in VIEWS.items():
                found[view, width, scheme] = page.locator(place).first.evaluate(FAULTS)
    return found


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_lies_on_another_off_the_screen_or_too_pale(faults: Any, view: str) -> None:
    assert {look: found for look in LOOKS if (found := faults[view, *look])} == {}
