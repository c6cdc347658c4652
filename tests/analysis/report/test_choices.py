"""The page in Chromium: its choices give what analysis gives.

Its statistics are written twice, in Python and in the page; these tests compare the two.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.pareto import pareto
from analysis.statistics.axes import AXES
from analysis.statistics.frontier import frontier
from tests.analysis import fake
from tests.analysis.report.chromium import MARKS, SEEDS, as_csv, drag, marks, opened, points, settle, untick
from tests.analysis.report.pages import HOSTILE, saved
from zoo.results import store
from zoo.results import table as results_table

pytestmark = MARKS


def test_the_first_view_is_the_csv_of_analysis_pareto(page: Any, whole: pd.DataFrame) -> None:
    shown = points(page)
    assert [name for name in whole.columns if name in shown.columns] == list(shown.columns)
    assert {"accuracy", "low", "high", "lr", "lr_edge", "on_frontier", "coverage"} <= set(shown.columns)
    pd.testing.assert_frame_equal(shown, as_csv(whole, list(shown.columns)))


@pytest.mark.parametrize("axis", list(AXES))
def test_every_axis_has_the_frontier_of_analysis(page: Any, whole: pd.DataFrame, axis: str) -> None:
    page.select_option("#axis", axis)
    frontiers = whole.assign(on_frontier=frontier(whole.assign(cost=AXES[axis].cost(whole)), "cost"))
    assert points(page)["on_frontier"].tolist() == as_csv(frontiers, ["on_frontier"])["on_frontier"].tolist()
    title = page.locator("#picture .xtitle").text_content()
    assert AXES[axis].unit in title.replace("\xa0", " ")


def test_filters_give_the_points_that_analysis_gives(page: Any, home: Path) -> None:
    table = results_table.load(home)
    untick(page, "seeds", "1")
    untick(page, "lrs", "0.01")
    untick(page, "slices", "64, 8", "128, 32")
    untick(page, "series", "Mamba")
    page.select_option("#split", "valid")
    remaining = table.query("seed != 1 and lr != 0.01 and mixer != 'mamba'")
    slices = ["seq_len=32,num_kv_pairs=4", "seq_len=64,num_kv_pairs=16"]
    shown = points(page)
    expected = as_csv(pareto(remaining, split="valid", of=slices).points, list(shown.columns))
    pd.testing.assert_frame_equal(shown, expected)
    page.click("#reset")
    page.select_option("#split", "test")
    assert len(points(page)) == len(fake.POINTS)


def test_a_family_has_one_box_and_names_can_be_searched(page: Any) -> None:
    page.locator(".choice.family", has_text="linear").locator("input").uncheck()
    assert set(points(page)["family"]) == {"attention", "ssm", "convolution", "sparse"}
    page.fill("#find", "MAMB")
    assert page.locator("#series .choice:visible").all_inner_texts() == ["Mamba"]
    page.press("#find", "Enter")
    assert set(points(page)["series"]) == {"Mamba"}
    page.click("#no-series")
    assert len(points(page)) == 0 and "Nothing is in view" in page.inner_text("#caption")
    page.click("#all-series")
    assert len(points(page)) == len(fake.POINTS)


def test_boxes_and_tables_react_to_the_keyboard(page: Any) -> None:
    page.locator("#seeds input").first.focus()
    page.keyboard.press("Space")
    assert set(points(page)["seeds"]) == {str(SEEDS - 1)}
    page.locator("#points tbody button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#command")


def test_tables_sort_both_ways(page: Any) -> None:
    header = page.locator("#points th", has_text="accuracy")
    for falling in (True, False):
        header.locator("button").click()
        assert header.get_attribute("aria-sort") == ("descending" if falling else "ascending")
        values = [float(text) for text in page.locator("#points td:nth-child(5)").all_inner_texts()]
        assert values == sorted(values, reverse=falling) and len(set(values)) > 5
    page.click("#cells-section summary")
    page.wait_for_selector("#cells tbody tr")
    assert page.locator("#cells tbody tr").count() == 50
    page.locator("#cells > button").click()
    assert page.locator("#cells tbody tr").count() == 3 * SEEDS * len(fake.POINTS) - 1


def test_zooming_survives_a_filter(page: Any) -> None:
    whole = page.evaluate("byId('picture').layout.xaxis.range")
    box = page.locator("#picture .nsewdrag").first.bounding_box()
    drag(page, (box["x"] + 100, box["y"] + 50), (box["x"] + 300, box["y"] + 250))
    page.wait_for_function("(whole) => byId('picture').layout.xaxis.range[0] > whole[0]", arg=whole)
    zoomed = page.evaluate("byId('picture').layout.xaxis.range")
    untick(page, "seeds", "1")
    assert points(page)["seeds"].iloc[0] == str(SEEDS - 1)
    assert page.evaluate("byId('picture').layout.xaxis.range") == zoomed
    page.select_option("#axis", "parameters")
    settle(page)
    page.select_option("#axis", "resident")
    settle(page)
    assert page.evaluate("byId('picture').layout.xaxis.range") == whole


@pytest.fixture(scope="module")
def odd(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Names that are HTML; a second load with one cell, and a third with one that diverged."""
    home = fake.write(tmp_path_factory.mktemp("odd"), seeds=1)
    scores = ("accuracy", "row_accuracy", "exact_rows", "loss")
    for place, folder in enumerate(store.folders(home)):
        record = json.loads((folder / "result.json").read_text())
        task = record["task_settings"] | {"vocab_size": {0: 64, 1: 256}.get(place, 128)}
        label, point = f"{HOSTILE}<b>{record['label']}</b>", f"{record['point']}{task['vocab_size']}"
        lost = {"slices": [entry | dict.fromkeys(scores) for entry in record["slices"]], "status": "diverged"}
        changes = {"label": label, "point": point} | (lost if place == 1 else {})
        fake.change(folder, family=HOSTILE, overrides=[HOSTILE], task_settings=task, **changes)
    with opened(browser, saved(home / "report.html", home)) as page:
        yield page


def test_a_mixer_called_script_is_text(odd: Any) -> None:
    name = f"{HOSTILE}<b>Based</b>"
    assert name in odd.inner_text("#series") and name in odd.inner_text("#points")
    bold = odd.evaluate("points.map((point) => hover(view, point).split('<b>').length)")
    assert bold == [2] * len(points(odd))
    odd.locator("#points tbody button", has_text=name).first.click()
    odd.wait_for_selector("#command")
    assert odd.inner_text("#command") == f"python -m zoo.run '{HOSTILE}'"
    assert name in odd.inner_text("#detail h2")
    lines = odd.evaluate("asCsv([['=HYPERLINK(1)', ' @x', '-', '-1e5', '+1', '-x']])")
    assert lines == "'=HYPERLINK(1),' @x,-,-1e5,+1,'-x\n"
    assert odd.locator("body b").count() == 0 and odd.locator("script").count() == 5


def test_settings_are_chosen_one_at_a_time_down_to_one_cell(odd: Any) -> None:
    names = odd.locator("#setting option").all_inner_texts()
    assert [name.split(" (")[1] for name in names] == ["49 cells)", "1 cell)", "1 cell)"]
    for place, name in enumerate(names):
        odd.select_option("#setting", index=place)
        shown = points(odd)
        assert odd.inner_text("#caption").startswith(name.split(" (")[0])
        if place:
            assert len(shown) == 1 and marks(odd) == 1
            lost = shown["diverged"].item() == "1"
            note = odd.locator("#picture .annotation", has_text="Every cell in view diverged.")
            assert (note.count() == 1) == lost == ("256" in name)
