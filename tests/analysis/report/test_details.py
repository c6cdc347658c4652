"""The page in Chromium: details of a point, comparisons, the address, downloads."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import permutation_test

from analysis.records.cells import named, slices
from analysis.statistics.learning_rate import choose
from analysis.statistics.paired import EXACT, at_equal_state, compare, holm
from analysis.statistics.points import points as summarised
from analysis.statistics.uncertainty import at_chosen
from tests.analysis import fake
from tests.analysis.report.chromium import MARKS, SEEDS, drag, opened, points, rows_of, settle, spot, untick
from tests.analysis.report.pages import saved
from zoo.results import table as results_table

pytestmark = MARKS


def test_a_click_on_a_point_shows_its_cells_and_curves(page: Any) -> None:
    attention = "points.find((each) => each.series === 'Attention')"
    at = spot(page, "picture", f"[Math.log10({attention}.state_resident), {attention}.accuracy]")
    page.mouse.move(*at)
    hover = page.wait_for_selector("#picture .hoverlayer .hovertext")
    hovered = hover.text_content()
    assert "resident 16,512" in hovered and f"{SEEDS} seeds, {SEEDS} solved" in hovered
    page.mouse.click(*at)
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


def test_points_and_runs_are_compared_and_the_address_restores_the_view(
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


def test_a_box_in_the_picture_and_a_series_in_the_list_are_compared(page: Any) -> None:
    page.locator("[data-title='Box Select']").click()
    box = page.locator("#picture .nsewdrag").first.bounding_box()
    end = (box["x"] + box["width"] - 2, box["y"] + box["height"] / 4)
    drag(page, (box["x"] + 2, box["y"] + 2), end)
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


def test_downloads_hold_what_is_shown_and_nothing_offers_an_upload(page: Any) -> None:
    saved = {}
    page.locator("#points tbody button").first.click()
    page.click("#cells-section summary")
    for button in ("save-svg", "save-png", "save", "save-cells", "save-curves"):
        with page.expect_download() as download:
            page.click(f"#{button}")
        saved[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
    svg, png, *tables = saved
    assert [svg, png] == [f"accuracy_against_resident.{kind}" for kind in ("svg", "png")]
    assert tables == ["points.csv", "cells.csv", "curves.csv"]
    assert b"<svg" in saved[svg] and b"Sliding window" in saved[svg]  # it has a legend
    assert saved[png].startswith(b"\x89PNG")
    cells = pd.read_csv(io.BytesIO(saved["cells.csv"]))
    assert len(cells) == 3 * SEEDS * len(fake.POINTS) - 1 and cells["run_id"].is_unique
    curves = pd.read_csv(io.BytesIO(saved["curves.csv"]))
    assert set(curves["metric"]) == {"loss", "accuracy"} and len(set(curves["run_id"])) == SEEDS
    buttons = page.locator(".modebar-btn").evaluate_all("(all) => all.map((each) => each.dataset.title)")
    assert buttons == ["Zoom", "Pan", "Box Select", "Zoom in", "Zoom out", "Reset axes"]


def test_a_difference_is_paired_over_seeds_and_put_in_words(page: Any, home: Path) -> None:
    """The numbers are those of `analysis.statistics.paired`, for points and for series at equal state."""
    table = named(results_table.load(home))
    chosen, of = choose(table), slices(table, "test")
    shown, scores = summarised(table, chosen, split="test", slices=of), at_chosen(table, chosen, "test", of)
    places = shown["series"].isin(["Based", "Attention"]).to_numpy().nonzero()[0][:3]
    for place in places:
        page.locator("#points tbody input").nth(int(place)).check()
    page.wait_for_function("() => byId('real')?.querySelectorAll('tbody th').length === 2")
    by_seed = [scores.loc[scores["point"] == shown["point"][i]].set_index("seed")["accuracy"] for i in places]
    compares = "comparisons(compared()).map(([, each, p, holm]) => ({...each, p, holm}))"
    pairs = pd.DataFrame(page.evaluate(compares)).rename(columns={"least": "least_p"})
    expected = pd.DataFrame([compare(one, by_seed[0]) for one in by_seed[1:]])
    pd.testing.assert_frame_equal(pairs[list(expected)], expected)
    assert pairs["holm"].tolist() == pytest.approx(holm(expected["p"].to_numpy()))
    cannot = f"{SEEDS} seeds cannot show this at 0.05: the smallest possible p is 0.0625. 7 could."
    assert cannot in page.inner_text("#real")
    minus = [row[5].split(",")[0] for row in rows_of(page, "points")]
    differences = [f"{d:+.3f}".replace("-", "\u2212") for d in expected["difference"]]
    assert [minus[int(place)] for place in places] == ["-", *differences]
    assert rows_of(page, "by-slice")[0][3].startswith(("+", "\u2212"))
    page.select_option("#against", index=1)
    page.wait_for_function("() => byId('against').selectedIndex === 1")
    assert page.evaluate("comparisons(compared())[0][1].difference") == pytest.approx(-pairs["difference"][0])
    page.click("#pairs-section summary")
    page.wait_for_selector("#pairs tbody tr")
    rows = pd.DataFrame(page.evaluate("tables.pairs.rows")).rename(columns={"least": "least_p"})
    theirs = at_equal_state(shown, scores).query("pairs > 0").reset_index(drop=True)
    pd.testing.assert_frame_equal(rows[list(theirs)], theirs, check_dtype=False)


@pytest.mark.parametrize("seeds", [8, EXACT, EXACT + 1, 18])
def test_p_is_that_of_scipy_exact_or_drawn(page: Any, seeds: int) -> None:
    """Beyond EXACT pairs the exchanges are drawn: within four of their standard errors of all 2^seeds."""
    drawn = np.random.default_rng(seeds).normal(0.5, 1.0, (2, seeds))
    for differences in [drawn[0], -drawn[0], drawn[1] - drawn[1].mean()]:
        p = page.evaluate("(all) => exchanged(all)", differences.tolist())
        known = permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=2**seeds)
        error = 4 * np.sqrt(known.pvalue * (1 - known.pvalue) / 2**EXACT) if seeds > EXACT else 1e-9
        assert abs(p - known.pvalue) <= error + 2.0**-EXACT * (seeds > EXACT)
    ps = [0.03, 0.5, 0.001, 0.02]
    assert page.evaluate("(ps) => holm(ps)", ps) == pytest.approx(holm(np.array(ps)))
    words = [page.evaluate(f"verdict({{pairs: 8, least: 0.01}}, {p})") for p in (0.02, 0.2)]
    assert [each.split(" by ")[0] for each in words] == ["Shown at 0.05", "Not shown at 0.05"]
    p, least = page.evaluate(f"[exchanged(Array({seeds}).fill(1)), leastP({seeds})]")
    assert p == least or (seeds > EXACT and p > least)


def test_a_repeated_run_is_the_later_minus_the_earlier_and_a_click_shows_both(
    browser: Any, tmp_path: Path
) -> None:
    """Hyena scores an eighth more on every row of the other folder; all else is the same there."""
    mine, again = (fake.write(tmp_path / name, seeds=2) for name in ("mine", "again"))
    for folder in again.glob("hyena-*"):
        slices = json.loads((folder / "result.json").read_text())["slices"]
        more = [each | {"accuracy": each["accuracy"] and each["accuracy"] + 0.125} for each in slices]
        fake.change(folder, slices=more)
    with opened(browser, saved(tmp_path / "report.html", mine, again)) as page:
        assert page.inner_text("#again-count") == "1 point"
        ((later, earlier, _, difference, p, high, low, words),) = rows_of(page, "again")
        assert (later, earlier) == ("Hyena (again)", "Hyena")
        assert float(high) - float(low) == pytest.approx(0.125, abs=2e-3)
        assert difference == "+0.125 (+0.125 to +0.125)" and p == "0.5"
        assert words.startswith("2 seeds cannot show this at 0.05")
        page.locator("#again tbody button").click()
        page.wait_for_function("() => byId('detail').innerText.includes('Comparing 2')")
        chosen = page.evaluate("compared().map(({ point }) => point.series)")
        assert chosen == ["Hyena", "Hyena (again)"] and "+0.125" in page.inner_text("#real")
        page.locator("#series label", has_text="Hyena (again)").locator("input").uncheck()
        settle(page)
        assert page.locator("#again tbody tr").count() == 0
