"""The page in Chromium: colour, shape, panels, labels and filters by any key of a config, and the search."""

from pathlib import Path
from typing import Any

import pandas as pd

from analysis.pareto import pareto
from analysis.statistics.frontier import frontier
from tests.analysis import fake
from tests.analysis.report.chromium import MARKS, as_csv, drag, marks, opened, points, settle, spot
from zoo.results import table as results_table

pytestmark = MARKS


def test_colour_shape_panels_and_labels_by_a_key_of_the_config(
    page: Any, browser: Any, written: Path, whole: pd.DataFrame
) -> None:
    page.click("#by-setting > summary")
    page.wait_for_function("() => byId('by-colour').options.length > 3")
    page.select_option("#by-colour", "mixer.feature_dim")
    page.select_option("#by-shape", "d_model")
    page.select_option("#by-facet", "family")
    page.select_option("#by-label", "mixer.window")
    settle(page)
    names = page.evaluate("byId('picture').data.filter((each) => each.name).map((each) => each.name)")
    shapes = page.evaluate("points.map((point) => [point.d_model, lookOf(view, point).symbol])")
    assert dict(shapes) == {32: "circle", 64: "square"}
    assert {"mixer.feature_dim=16, d_model=64", "mixer.feature_dim=\u2013, d_model=32"} <= set(names)
    looks = page.evaluate("points.map((point) => [point.series, point.knobs, lookOf(view, point).colour])")
    colours = {knobs: colour for series, knobs, colour in looks if series == "Based"}
    assert page.evaluate("levelsOf('mixer.feature_dim')") == ["4", "8", "16", "\u2013"]
    ends = page.evaluate("[shade(RISING[0]), shade(RISING.at(-1))]")
    assert [colours["feature_dim=4"], colours["feature_dim=16"]] == ends and len(set(colours.values())) == 3
    assert {colour for series, _, colour in looks if series != "Based"} == {page.evaluate("LOOK.faint")}
    families = page.locator("#facets h3").all_inner_texts()
    assert families[0] == "family attention 5 points" and len(families) == 5
    one = "byId('facets').children[2].lastChild.data.flatMap((each) => each.customdata ?? [])"
    assert page.evaluate(f"new Set({one}.map((place) => view.setting.points.family[place])).size") == 1
    fronts = page.evaluate(
        """[...byId("facets").children].map((each) => each.lastChild.data)
          .map((traces) => traces.find((trace) => trace.line?.width === 6).x.length)"""
    )
    groups = whole.groupby("family", sort=False)
    expected = {
        name: frontier(part.assign(cost=part["state_resident"]), "cost").sum() + 1 for name, part in groups
    }
    assert fronts == [expected[family.split()[1]] for family in families]
    texts = page.evaluate("labels(points, () => 1)[0].text")
    assert {"8", "16", "32", "64"} <= set(texts)
    assert page.evaluate("byId('parallel').data.length") == len(fake.POINTS)
    address = page.evaluate("location.hash")
    with opened(browser, written, address) as again:
        again.wait_for_selector("#facets h3")
        assert again.locator("#facets h3").all_inner_texts() == families
        assert again.evaluate("encode") == page.evaluate("encode")
    page.click("#reset")
    settle(page)
    assert page.locator("#facets h3").count() == 0


def test_filters_by_setting_and_search_give_the_points_that_analysis_gives(page: Any, home: Path) -> None:
    table = results_table.load(home)
    page.evaluate("byId('by-setting').open = true")
    page.wait_for_function("() => byId('by-filter').options.length > 3")
    page.select_option("#by-filter", "mixer.window")
    page.locator(".where label", has_text="16").locator("input").uncheck()
    shown = points(page)
    remaining = table.loc[table["mixer.window"] != 16]
    pd.testing.assert_frame_equal(shown, as_csv(pareto(remaining).points, list(shown.columns)))
    page.fill("#find", "sliding d_model=64 window=")
    assert points(page)["knobs"].tolist() == ["window=8", "window=32", "window=64"]
    assert page.locator("#series .choice:visible").all_inner_texts() == ["Sliding window"]
    page.locator(".where legend button").click()
    page.fill("#find", "")
    assert len(points(page)) == len(fake.POINTS)
    page.click("#reset")


def test_a_line_of_the_parallel_coordinates_chooses_its_point(page: Any) -> None:
    page.evaluate("byId('by-setting').open = true")
    page.wait_for_function("() => byId('parallel').data?.length")
    page.click("#by-setting details summary")
    page.locator("#parallel-axes label", has_text="mixer.window").locator("input").check()
    settle(page)
    axes = page.evaluate("byId('parallel').layout.xaxis.ticktext")
    assert "mixer<br>window" in axes and axes[-1] == "accuracy"
    best = page.evaluate("byId('parallel').data.at(-1)")
    assert best["y"][-1] == 1 and best["customdata"][0] == page.evaluate(
        "points.reduce((a, b) => (b.accuracy > a.accuracy ? b : a)).place"
    )
    page.evaluate("byId('parallel').scrollIntoView({block: 'center'})")
    page.mouse.click(*on_axis(page, axes.index("accuracy"), "points[3].accuracy"))
    page.wait_for_function("() => selection.length === 1")
    assert page.evaluate("selection[0].point === points[3].place")
    page.evaluate("clear()")


def test_a_box_over_an_axis_of_the_parallel_coordinates_is_a_filter(
    page: Any, browser: Any, written: Path, whole: pd.DataFrame
) -> None:
    page.evaluate("byId('by-setting').open = true")
    page.wait_for_function("() => byId('parallel').data?.length")
    page.evaluate("byId('parallel').scrollIntoView({block: 'center'})")
    axes = page.evaluate("parallelShown.map(([name]) => name)")
    for name, low, high in (("accuracy", "0.5", "1"), ("family", "'linear'", "'linear'")):
        settle(page)
        (left, bottom), (right, top) = (on_axis(page, axes.index(name), end) for end in (low, high))
        drag(page, (left - 12, bottom + 6), (right + 12, top - 6))
        page.wait_for_function("(name) => byId('brushes').innerText.includes(name)", arg=name)
    shown = points(page)
    remaining = whole.loc[(whole["accuracy"] >= 0.5) & (whole["family"] == "linear")]
    assert shown["point"].tolist() == remaining["point"].tolist() and len(remaining) > 1
    assert marks(page) == page.evaluate("markers(view, points, () => 1).flatMap(({x}) => x).length")
    address = page.evaluate("location.hash")
    with opened(browser, written, address) as again:
        again.wait_for_function(f"() => points.length === {len(remaining)}")
        assert again.locator("#brushes .chip").count() == 2
    page.get_by_label("any accuracy").click()
    assert set(points(page)["family"]) == {"linear"} and len(points(page)) > len(remaining)
    page.click("#reset")
    assert len(points(page)) == len(fake.POINTS)


def on_axis(page: Any, axis: int, value: str) -> list[float]:
    """Return the place on the screen of a value on an axis of the parallel coordinates."""
    y = f"scaleOf(points.map(parallelShown[{axis}][1])).at({value})"
    return spot(page, "parallel", f"[{axis}, {y}]")
