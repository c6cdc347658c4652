"""The page in Chromium: its marks, names and colours at every width, light and dark, in each view."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.statistics.chance import ONE_OF_N
from analysis.statistics.seeds import APART, apart
from tests.analysis import fake
from tests.analysis.report.chromium import FAULTS, MARKS, choose, opened, settle
from tests.analysis.report.measure import measured
from tests.analysis.report.pages import HOSTILE, saved

pytestmark = MARKS
BOXES = """(all) => all.map((each) => each.getBoundingClientRect())
  .map(({x, y, width, height}) => [x, y, width, height])"""


def test_limits_are_named_in_the_picture(page: Any) -> None:
    annotations = " ".join(page.locator("#picture .annotation").all_text_contents())
    guess = sum(1 / pairs for _, pairs in fake.SLICES) / len(fake.SLICES)
    assert f"{ONE_OF_N} ({guess:.3f})" in annotations
    drawn = page.evaluate("layout({ ...view }, points, [1, 1e5]).annotations.map((each) => each.text)")
    assert "no model: 16 bits a scalar" not in drawn  # it would stand on that of 32
    assert len(drawn) == 4 and "outer-product memory (a heuristic)" in drawn
    page.uncheck("#show-bound")
    settle(page)
    assert page.locator("#picture .annotation").count() == 0
    page.check("#show-bound")


def test_the_caption_lists_the_bounds_in_sight_and_no_others(page: Any) -> None:
    """All of them bind left of the first point of `fake`; a reader who zooms out meets them one by one."""
    in_view = """view.axis.bounds.map((label) => {
      const ends = byId("picture").layout.xaxis.range.map((power) => 10 ** power);
      return [SAID(label), binding(view, label).x.some((x) => x > ends[0] && x < ends[1])];
    })"""
    lists = set()
    for zoom in (None, [2.3, 4, 0, 1], [1.5, 4, 0, 1], [0.8, 4, 0, 1], [0.8, 4, -0.1, -0.05]):
        if zoom:
            page.evaluate("(zoom) => zoomTo(zoom)", zoom)
            settle(page)
        caption, high = page.inner_text("#caption"), not zoom or zoom[-1] > 0
        in_sight = [name for name, visible in page.evaluate(in_view) if visible and high]
        assert [name for name in page.evaluate("view.axis.bounds.map(SAID)") if name in caption] == in_sight
        assert in_sight or "No bound is in sight." in caption
        lists.add(tuple(in_sight))
    assert {len(names) for names in lists} == {0, 1, 2, 3}


def test_accuracy_and_state_of_a_point_are_on_a_narrow_screen(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    settle(page)
    for title in ("mixer", "settings", "resident state", "accuracy"):
        x, _, width, _ = page.locator("#points th", has_text=title).first.evaluate_all(BOXES)[0]
        assert x >= 0 and x + width <= 390, title
    assert page.locator("#points th", has_text="coverage").get_attribute("title")
    assert page.locator("#theme-choice").inner_text().startswith("Colours")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_what_diverged_or_failed_is_shown(page: Any) -> None:
    diverged = page.evaluate("DATA.settings[0].cells.diverged.filter(Boolean).length")
    assert page.locator("#diverged tbody tr").count() == diverged > 0
    assert page.inner_text("#failed summary") == f"gla-failed: ValueError: {HOSTILE}"
    page.click("#failed summary")
    assert HOSTILE in page.inner_text("#failed pre")


def test_light_and_dark(page: Any) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        settle(page)
        paper, ink = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert (sum(map(int, re.findall(r"\d+", paper))) < 150) == (scheme == "dark")
        assert page.evaluate("contrast(channels(LOOK.ink), channels(LOOK.paper))") > 10
        assert page.evaluate("byId('picture')._fullLayout.plot_bgcolor") == page.evaluate("LOOK.paper")
        assert ink != paper
    dark = page.evaluate(
        "view.setting.series.map((each) => contrast(channels(shade(each.colour)), channels(LOOK.paper)))"
    )
    assert min(dark) >= 4.4
    page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("cells", [400, pytest.param(5000, marks=pytest.mark.slow)])
def test_the_page_stays_small_and_opens(browser: Any, tmp_path: Path, cells: int) -> None:
    assert measured(browser, tmp_path / "results", cells)[0] < 8


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_no_label_overlaps_another(page: Any, width: int) -> None:
    """Ticks of the longest numbers, names of the lines, at each width; the name of chance hides no point."""
    page.set_viewport_size({"width": width, "height": 800})
    for axis in ("resident", "fp32", "operations"):
        page.select_option("#axis", axis)
        settle(page)
        page.evaluate("Plotly.Plots.resize('picture').then(render)")
        settle(page)
        assert page.locator("#picture").evaluate(FAULTS) == [], axis
    names = page.locator("#picture .annotation-text").all_text_contents()
    assert any(name.startswith("chance (") for name in names) == (width < 700)  # the short name
    assert page.locator("#legend").is_visible() == (width < 860)
    page.set_viewport_size({"width": 1280, "height": 800})


def test_seeds_that_are_apart_are_drawn_singly_as_in_the_png(page: Any, whole: pd.DataFrame) -> None:
    shown = page.evaluate("points.map(({series, d_model, knobs, apart}) => [series, d_model, knobs, apart])")
    known = zip(*(whole[name] for name in ("series", "d_model", "knobs", "seed_accuracies")), strict=True)
    expected = {(series, d_model, knobs): apart(word) for series, d_model, knobs, word in known}
    for series, d_model, knobs, scores in shown:
        assert scores == pytest.approx(expected[series, d_model, knobs], abs=1e-5)
    assert page.evaluate("APART") == APART
    split = [scores for *_, scores in shown if scores]
    assert split, "no point of the made-up results has seeds that are apart"
    traces = page.evaluate("markers(view, points, () => 1).flatMap((trace) => trace.customdata)")
    finished = page.evaluate("finishedOf(points).length")
    assert len(traces) == finished + sum(len(scores) - 1 for scores in split)


VIEWS = {  # name -> where it stands
    **{"filters": "aside", "head": "header", "picture": "#app main > section", "chosen": "#detail"},
    **{name: f"#{name}-section" for name in ("evaluations", "answers", "again", "pairs", "cells", "failed")},
    **{"diverged": "#diverged-section", "unread": "#unread-section", "points": "#points", "key": "#key"},
}
LOOKS = list(product((390, 800, 1400), ("light", "dark")))


@pytest.fixture(scope="module")
def faults(browser: Any, evaluated: Path, home: Path) -> dict[Any, list[str]]:
    """All views open at once, on one page of two folders that have the same cells with other scores."""
    faults_at = {}
    with opened(browser, saved(evaluated / "views.html", evaluated, home), bypass_csp=True) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        page.wait_for_function(
            "byId('by-colour').options.length > 3 && byId('evaluation').options.length > 2"
        )
        choose(page, "Attention", "Based", "Hyena")
        page.select_option("#by-facet", "family")
        page.select_option("#by-colour", "d_model")
        page.wait_for_selector("#answers tbody tr")
        page.locator("#answers tbody tr").first.click()
        for width, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            settle(page)
            for view, place in VIEWS.items():
                faults_at[view, width, scheme] = page.locator(place).first.evaluate(FAULTS)
    return faults_at


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_overlaps_leaves_the_screen_or_is_too_pale(faults: Any, view: str) -> None:
    assert {look: wrong for look in LOOKS if (wrong := faults[view, *look])} == {}
