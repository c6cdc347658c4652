"""The page of analysis.report in headless Chromium: that it draws, filters, switches and answers clicks.

Its statistics are written twice, in Python and in the page; here the two meet.
"""

import io
import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.pareto import pareto
from analysis.report.page import report
from analysis.statistics.axes import AXES
from analysis.statistics.chance import SAID
from tests.analysis import crowd, fake
from zoo.results import store
from zoo.results import table as results_table

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (dev extra)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path (.ci/chromium installs it)"),
]
HOSTILE = "<script>alert(1)</script>"
SEEDS = 5  # so many that intervals are bootstrapped
OPENS_WITHIN = 15  # seconds; measured and meant: benchmarks/tables/report.md


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeds, learning rates, divergences; one seed is missing, one cell failed."""
    home = fake.write(tmp_path_factory.mktemp("results"), seeds=SEEDS)
    shutil.rmtree(home / "based-0020")  # a seed of what would be its point's best learning rate
    (home / "gla-failed").mkdir()
    (home / "gla-failed" / "error.txt").write_text(f"ValueError: {HOSTILE}\n")
    for folder in store.folders(home):
        if store.is_done(folder):
            words = [
                f"mixer={folder.name.split('-')[0]}",
                "model.layers=[base_conv,mixer]",
                f"results={home}",
            ]
            changed(folder, {"overrides": words, "git_revision": "f" * 40, "git_clean": True})
            learned(folder)
    return home


def learned(folder: Path) -> None:
    """A loss that falls by its learning rate, and a config of a mapping, a list and a text of two lines."""
    record = json.loads((folder / "result.json").read_text())
    with (folder / "metrics.csv").open("a") as file:
        for step in (100, 600):
            for row in (f"loss,{1 / (step * record['lr'])}", "answers,64"):
                file.write(f'{step},train,"seq_len=32,num_kv_pairs=4",{row}\n')
    settings = "".join(f"  {key}: {value}\n" for key, value in record["mixer_settings"].items())
    loads = f"task:\n  train:\n  - seq_len: {record['d_model']}\n    pairs: 4\n  note: one\n    two\n"
    (folder / "config.yaml").write_text(f"mixer:\n{settings}{loads}lr: {record['lr']}\nblock: none\n")


@pytest.fixture(scope="module")
def written(home: Path) -> Path:
    path = home / "report.html"
    path.write_text(report([home])[0], encoding="utf-8")
    return path


@contextmanager
def opened(browser: Any, path: Path, address: str = "", **about: Any) -> Iterator[Any]:
    """The page in a tab of its own; nothing may be said on its console, nothing fetched but the file."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, **about)
    page.set_default_timeout(120_000)  # a machine may be busy
    said: list[str] = []

    def own(url: str) -> bool:
        return url.split("#")[0] == path.as_uri() or url.startswith(("blob:", "data:"))

    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if not own(request.url) else None)
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(path.as_uri() + address)
    yield page
    settle(page)
    assert said == []
    page.close()


@pytest.fixture(scope="module")
def shared(browser: Any, written: Path) -> Iterator[Any]:
    """The page of `home`, loaded once: that takes longest."""
    with opened(browser, written) as page:
        yield page


@pytest.fixture
def page(shared: Any) -> Any:
    """The same page with everything as it was at first."""
    shared.evaluate("setUp(), chosenAnew()")
    for home, first in (("axis", "resident"), ("split", "test")):
        shared.select_option(f"#{home}", first)
    shared.evaluate("() => ((byId('cells-section').open = false), (tables.points.sort = null), render())")
    shared.evaluate("scrollTo(0, 0)")
    return shared


def changed(folder: Path, changes: dict[str, Any]) -> None:
    record = json.loads((folder / "result.json").read_text()) | changes
    (folder / "result.json").write_text(json.dumps(record))


def settle(page: Any) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def points(page: Any) -> pd.DataFrame:
    settle(page)
    return pd.read_csv(io.StringIO(page.evaluate("csv(points)")), dtype=str, keep_default_na=False)


def as_csv(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    text = frame[columns].to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def marks(page: Any) -> int:
    """Points that stand in the picture."""
    settle(page)
    return page.evaluate("document.querySelectorAll('#picture .scatterlayer .point').length")


def untick(page: Any, home: str, *names: str) -> None:
    for name in names:
        page.locator(f"#{home} .choice label", has_text=name).first.locator("input").uncheck()


def test_the_first_view_is_the_csv_of_analysis_pareto(page: Any, home: Path) -> None:
    whole = pareto(results_table.load(home)).points
    shown = points(page)
    assert [name for name in whole.columns if name in shown.columns] == list(shown.columns)
    assert {"accuracy", "low", "high", "lr", "lr_edge", "on_frontier", "coverage"} <= set(shown.columns)
    pd.testing.assert_frame_equal(shown, as_csv(whole, list(shown.columns)))


@pytest.mark.parametrize("axis", list(AXES))
def test_every_axis_has_the_frontier_of_analysis(page: Any, home: Path, axis: str) -> None:
    page.select_option("#axis", axis)
    whole = pareto(results_table.load(home), axis=axis).points
    assert points(page)["on_frontier"].tolist() == as_csv(whole, ["on_frontier"])["on_frontier"].tolist()
    title = page.locator("#picture .xtitle").text_content()
    assert AXES[axis].unit in title.replace("\xa0", " ")


def test_filters_give_what_the_same_choice_gives_there(page: Any, home: Path) -> None:
    table = results_table.load(home)
    untick(page, "seeds", "1")
    untick(page, "lrs", "0.01")
    untick(page, "slices", "64, 8", "128, 32")
    untick(page, "series", "Mamba")
    page.select_option("#split", "valid")
    kept = table.query("seed != 1 and lr != 0.01 and mixer != 'mamba'")
    slices = ["seq_len=32,num_kv_pairs=4", "seq_len=64,num_kv_pairs=16"]
    shown = points(page)
    expected = as_csv(pareto(kept, split="valid", of=slices).points, list(shown.columns))
    pd.testing.assert_frame_equal(shown, expected)
    page.click("#reset")
    page.select_option("#split", "test")
    assert len(points(page)) == len(fake.POINTS)


def test_a_family_is_one_box_and_a_name_can_be_looked_for(page: Any) -> None:
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


def test_boxes_and_tables_answer_the_keyboard(page: Any) -> None:
    page.locator("#seeds input").first.focus()
    page.keyboard.press("Space")
    assert set(points(page)["seeds"]) == {str(SEEDS - 1)}
    page.locator("#points tbody button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#command")


def test_a_click_on_a_point_shows_all_that_is_behind_it(page: Any) -> None:
    spot = page.evaluate(
        """() => {
          const point = points.find((each) => each.series === "Attention");
          const { xaxis, yaxis } = byId("picture")._fullLayout;
          const box = byId("picture").getBoundingClientRect();
          const x = xaxis.l2p(Math.log10(point.state_resident)), y = yaxis.l2p(point.accuracy);
          return [box.x + xaxis._offset + x, box.y + yaxis._offset + y];
        }"""
    )
    page.mouse.move(*spot)
    hover = page.wait_for_selector("#picture .hoverlayer .hovertext")
    assert (
        "resident 16,512" in hover.text_content() and f"{SEEDS} seeds, {SEEDS} solved" in hover.text_content()
    )
    page.mouse.click(*spot)
    page.wait_for_selector("#curves .scatterlayer .trace")
    assert page.locator("#curves .scatterlayer .trace").count() == 3 * SEEDS  # at three learning rates
    assert page.locator("#profile .scatterlayer .trace").last.locator(".point").count() == 3
    assert page.inner_text("#command") == "python -m zoo.run mixer=attention 'model.layers=[base_conv,mixer]'"
    assert "Attention" in page.inner_text("#detail h2")
    page.select_option("#cell", index=8)
    page.wait_for_function("() => byId('detail').innerText.includes('attention-0008')")
    assert page.locator("#points tr.chosen").count() == 1
    page.click("#close")
    assert page.locator("#command").count() == 0


def test_points_and_runs_stand_side_by_side_and_the_address_says_so(
    page: Any, browser: Any, written: Path
) -> None:
    rows = page.locator("#points tbody tr")
    rows.filter(has_text="Attention").first.locator("td").nth(6).click()  # anywhere on a row
    page.wait_for_selector("#by-slice")
    assert page.locator("#differences").count() == 0
    mamba = rows.filter(has_text="Mamba").last
    mamba.locator("td").nth(4).click(modifiers=["Control"])
    page.click("#cells-section summary")
    page.locator("#cells tbody tr", has_text="attention-0003").locator("input").check()
    page.wait_for_function("() => byId('detail').innerText.includes('Comparing 3')")
    assert page.locator("#losses .trace").count() == page.locator("#curves .trace").count() == 2 * SEEDS + 1
    assert page.locator("#picture .shapelayer path").count() == 3
    facts = {name: cells for name, *cells in rows_of(page, "numbers")}
    assert facts["resident state"] == ["16,512", "4,864", "16,512"]
    slices = rows_of(page, "by-slice")
    shown = points(page)
    means = [sum(float(row[at].split()[0]) for row in slices) / len(slices) for at in (1, 2)]
    whole = dict(zip(shown["series"] + shown["knobs"], shown["accuracy"].astype(float), strict=True))
    assert len(slices) == len(fake.SLICES)
    assert means == pytest.approx([whole["Attention"], whole["Mambad_state=16"]], abs=1e-3)
    differ = {name: cells for name, *cells in rows_of(page, "differences")}
    assert differ["mixer.d_state"] == ["\u2013", "16", "\u2013"] and "block" not in differ
    assert "task.note" not in differ and "task.train" not in differ
    page.select_option("#axis", "touched")
    untick(page, "slices", "64, 8")
    page.select_option("#theme", "dark")
    settle(page)
    numbers = rows_of(page, "numbers")
    address = page.evaluate("showing.then(() => location.hash)")
    with opened(browser, written, address) as again:
        again.wait_for_selector("#differences")
        assert rows_of(again, "numbers") == numbers
        assert again.locator("#slices input:not(:checked)").count() == 1
        assert again.evaluate("[view.axis.key, LOOK.dark, location.hash]") == ["touched", True, address]
        again.evaluate("location.hash = '#series=Mamba&point=nowhere&sort=-99&zoom=x&setting=' + '<b>'")
        again.wait_for_function("() => points.length === 2 && !selection.length")
    page.select_option("#theme", "")


def rows_of(page: Any, card: str) -> list[list[str]]:
    lines = page.locator(f"#{card} tbody tr")
    return lines.evaluate_all("(all) => all.map((line) => [...line.cells].map((cell) => cell.innerText))")


def test_a_box_in_the_picture_and_a_series_in_the_list_are_compared(page: Any) -> None:
    page.locator("[data-title='Box Select']").click()
    box = page.locator("#picture .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 4, steps=4)
    page.mouse.up()
    page.wait_for_function("() => byId('detail').innerText.includes('Comparing')")
    high = page.evaluate("selection.map((item) => points.find((each) => each.place === item.point).accuracy)")
    assert len(high) > 3 and min(high) > 0.5
    page.locator("[data-title='Zoom']").click()
    page.click("#close")
    page.locator("#series .choice", has_text="Sliding window").hover()
    page.get_by_label("compare the points of Sliding window").click()
    page.wait_for_function("() => byId('detail').innerText.includes('Comparing 4')")
    page.locator(".chip button").first.click()
    page.wait_for_function("() => byId('detail').innerText.includes('Comparing 3')")


def test_what_is_taken_away_and_that_nothing_offers_an_upload(page: Any) -> None:
    saved = {}
    page.locator("#points tbody button").first.click()
    page.click("#cells-section summary")
    for button in ("save-svg", "save-png", "save", "save-cells", "save-curves"):
        with page.expect_download() as download:
            page.click(f"#{button}")
        saved[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
    assert list(saved) == [
        *(f"accuracy_against_resident.{kind}" for kind in ("svg", "png")),
        *("points.csv", "cells.csv", "curves.csv"),
    ]
    assert b"<svg" in saved["accuracy_against_resident.svg"]
    assert b"Sliding window" in saved["accuracy_against_resident.svg"]  # it has a legend
    assert saved["accuracy_against_resident.png"].startswith(b"\x89PNG")
    cells = pd.read_csv(io.BytesIO(saved["cells.csv"]))
    assert len(cells) == 3 * SEEDS * len(fake.POINTS) - 1 and cells["run_id"].is_unique
    curves = pd.read_csv(io.BytesIO(saved["curves.csv"]))
    assert set(curves["metric"]) == {"loss", "accuracy"} and len(set(curves["run_id"])) == SEEDS
    buttons = page.locator(".modebar-btn").evaluate_all("(all) => all.map((each) => each.dataset.title)")
    assert buttons == ["Zoom", "Pan", "Box Select", "Zoom in", "Zoom out", "Reset axes"]


def test_limits_are_named_in_the_picture(page: Any) -> None:
    said = " ".join(page.locator("#picture .annotation").all_text_contents())
    guess = sum(1 / pairs for _, pairs in fake.SLICES) / len(fake.SLICES)
    assert f"{SAID} ({guess:.3f})" in said
    drawn = page.evaluate("layout({ ...view }, points, [1, 1e5]).annotations.map((each) => each.text)")
    assert len(drawn) == 5 and "outer-product memory (a heuristic)" in drawn
    page.uncheck("#show-bound")
    settle(page)
    assert page.locator("#picture .annotation").count() == 0
    page.check("#show-bound")


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


def test_what_diverged_or_failed_is_shown(page: Any) -> None:
    diverged = page.evaluate("DATA.settings[0].cells.diverged.filter(Boolean).length")
    assert page.locator("#diverged tbody tr").count() == diverged > 0
    assert page.inner_text("#failed summary") == f"gla-failed: ValueError: {HOSTILE}"
    page.click("#failed summary")
    assert HOSTILE in page.inner_text("#failed pre")


def test_zooming_survives_a_filter(page: Any) -> None:
    whole = page.evaluate("byId('picture').layout.xaxis.range")
    box = page.locator("#picture .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 250, steps=4)
    page.mouse.up()
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


def test_three_widths_light_and_dark(page: Any) -> None:
    page.locator("#points tbody button").first.click()
    page.locator("#points tbody input").nth(3).check()
    page.wait_for_selector("#differences")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (360, 390, 800, 1400):
            page.set_viewport_size({"width": width, "height": 800})
            settle(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("#legend").is_visible() == (width < 860)
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
    page.set_viewport_size({"width": 1280, "height": 800})


@pytest.fixture(scope="module")
def odd(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Names that are HTML; a second load with one cell, and a third with one that diverged."""
    home = fake.write(tmp_path_factory.mktemp("odd"), seeds=1)
    scores = ("accuracy", "row_accuracy", "exact_rows", "loss")
    for place, folder in enumerate(store.folders(home)):
        record = json.loads((folder / "result.json").read_text())
        task = record["task_settings"] | {"vocab_size": {0: 64, 1: 256}.get(place, 128)}
        lost = {"slices": [entry | dict.fromkeys(scores) for entry in record["slices"]], "status": "diverged"}
        names = {"label": f"{HOSTILE}<b>{record['label']}</b>", "family": HOSTILE, "overrides": [HOSTILE]}
        point = f"{record['point']}{task['vocab_size']}"
        changed(folder, names | {"task_settings": task, "point": point} | (lost if place == 1 else {}))
    path = home / "report.html"
    path.write_text(report([home])[0], encoding="utf-8")
    with opened(browser, path) as page:
        yield page


def test_a_mixer_called_script_is_text(odd: Any) -> None:
    name = f"{HOSTILE}<b>Based</b>"
    assert name in odd.inner_text("#series") and name in odd.inner_text("#points")
    assert odd.evaluate("points.map((point) => hover(view, point).split('<b>').length)") == [2] * len(
        points(odd)
    )
    odd.locator("#points tbody button", has_text=name).first.click()
    odd.wait_for_selector("#command")
    assert odd.inner_text("#command") == f"python -m zoo.run '{HOSTILE}'"
    assert name in odd.inner_text("#detail h2")
    lines = odd.evaluate("asCsv([['=HYPERLINK(1)', ' @x', '-', '-1e5', '+1', '-x']])")
    assert lines == "'=HYPERLINK(1),' @x,-,-1e5,+1,'-x\n"
    assert odd.locator("body b").count() == 0 and odd.locator("script").count() == 4


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
            said = odd.locator("#picture .annotation", has_text="Every cell in view diverged.")
            assert (said.count() == 1) == lost == ("256" in name)


@pytest.mark.slow
def test_thousands_of_cells(browser: Any, tmp_path: Path) -> None:
    crowd.write(tmp_path, 5000)
    path = tmp_path / "report.html"
    path.write_text(report([tmp_path])[0], encoding="utf-8")
    assert path.stat().st_size < 10e6
    began = time.perf_counter()
    with opened(browser, path) as page:
        settle(page)
        assert time.perf_counter() - began < OPENS_WITHIN
        whole = marks(page)
        page.locator(".choice.family", has_text="linear").locator("input").uncheck()
        assert 200 < marks(page) < whole
