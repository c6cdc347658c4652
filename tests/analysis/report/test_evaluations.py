"""The page in Chromium: evaluations after training, drawn for the points that are chosen."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.report.page import report
from tests.analysis.report.chromium import MARKS, choose, opened, rows_of, settle
from tests.analysis.report.pages import HOSTILE, Page, saved
from zoo.results import evaluations

pytestmark = MARKS
ARCHIVES = Path(__file__).parents[3] / "docs" / "results"
PANELS = """[...byId("evaluation-panels").querySelectorAll(".js-plotly-plot")].map(({ data, layout }) =>
  [layout.xaxis.title.text, layout.yaxis.title.text, isNumber(data.flatMap(({ x }) => x))])"""
NAMES = ("extrapolation", "forgetting", "forgetting_mqar", "state_bits")
DRAWN = {  # of each evaluation in these archives: what x is, what y is, and how many panels
    "extrapolation": ({"seq_len", "num_kv_pairs"}, "accuracy", 2),
    "forgetting_curve": ({"length"}, "accuracy", 1),
    "perplexity": ({"slice"}, "perplexity", 1),
    "ar_hits": ({"cutoff"}, "loss", 3),
    "speed": ({"seq_len"}, "tokens_per_second", 2),
    "distance": ({"distance"}, "accuracy", 3),
    "state_bits": ({"bits_per_scalar"}, "accuracy", 2),
    "effective_state": ({"cut"}, "rank", 2),
}


@pytest.fixture(scope="module")
def text(evaluated: Path) -> str:
    return report([evaluated])[0]


@pytest.fixture(scope="module")
def page(browser: Any, evaluated: Path, text: str) -> Iterator[Any]:
    path = evaluated / "report.html"
    path.write_text(text, encoding="utf-8")
    with opened(browser, path) as page:
        yield page


def shown(page: Any) -> None:
    page.evaluate("drawEvaluation()")
    settle(page)


def test_answers_are_in_the_page_and_a_damaged_one_is_a_problem(text: str) -> None:
    page = Page(text)
    names = [each["name"] for each in page.data["evaluations"]]
    assert names == ["answers", "load_distance", "mine", "distance"]
    (problem,) = page.data["problems"]
    assert "no table of an evaluation" in problem["why"]


def test_an_evaluation_is_drawn_for_the_chosen_points(page: Any, evaluated: Path, browser: Any) -> None:
    choose(page, "feature_dim=16", "feature_dim=8", "Mamba")  # the last has no answers
    page.click("#evaluations-section summary")
    page.select_option("#evaluation", index=1)
    shown(page)
    assert page.locator("#evaluation-panels h3").all_inner_texts() == ["num_kv_pairs 2", "num_kv_pairs 4"]
    drawn = page.evaluate("byId('evaluation-panels').children[1].lastChild.data.map(({x, y}) => [x, y])")
    cells = page.evaluate("compared()[0].cells.map((cell) => view.setting.cells.run_id[cell])")
    table = evaluations.load_evaluations(evaluated, "load_distance").query("num_kv_pairs == 4")
    means = table.loc[table["run_id"].isin(cells)].groupby("distance")["accuracy"].mean()
    assert drawn[0] == [[8, 64], [0.25, 0.25]]  # what a guess scores
    assert drawn[1] == [[8, 64], pytest.approx(means.tolist(), abs=1e-4)] and len(drawn) == 3
    assert page.locator("#evaluation-names .chip").count() == 2
    page.select_option("#evaluation-panel", "")
    page.select_option("#evaluation-line", "num_kv_pairs")
    shown(page)
    assert page.locator("#evaluation-panels .trace").count() == 4 + 1
    address = page.evaluate("location.hash")
    with opened(browser, evaluated / "report.html", address) as again:
        again.wait_for_selector("#evaluation-panels .trace", state="attached")
        shown(again)
        assert again.locator("#evaluation-panels .trace").count() == 4 + 1
    page.evaluate("clear()")


def test_the_table_of_a_users_evaluation_is_drawn_and_its_words_are_text(page: Any) -> None:
    page.evaluate("byId('evaluations-section').open = true")
    page.select_option("#evaluation", index=2)
    shown(page)
    chosen = page.evaluate("roles")
    assert chosen == {"x": "depth", "y": "nats", "line": "", "panel": HOSTILE}
    assert page.locator("#evaluation-panels h3").all_inner_texts() == [f"{HOSTILE} a", f"{HOSTILE} b"]
    count = page.evaluate("new Set(points.map((point) => point.series)).size")
    names = page.locator("#evaluation-names .chip").all_inner_texts()
    assert len(names) == count and "Based d_model=64 feature_dim=16" in names  # the best of each
    assert json.loads(page.evaluate("JSON.stringify(levels([{a: ['nan', null, 2]}], 'a'))")) == [2]


def test_rows_are_filtered_by_who_is_right_and_open_as_tokens(page: Any) -> None:
    page.evaluate("clear(), byId('answers-section').open = true")
    choose(page, "Attention", "Hyena")
    page.wait_for_selector("#answers tbody tr")
    page.wait_for_function("() => answerRows.length === 8")  # four places of two seeds
    note = "Both right 2, only the first 2, only the second 2, neither 2."
    assert note in page.inner_text("#answers-note")
    everything = {"verdict": "all", "slice": "", "group": "", "from": "", "to": ""}

    def asks(**choices: str) -> list[list[str]]:
        """Return [slice, place, kind, first, second] of the rows of seed 0 that remain."""
        for name, value in (everything | choices).items():
            home = page.locator(f"#answer-{name}")
            home.fill(value) if name in ("from", "to") else home.select_option(value)
        page.keyboard.press("Tab")
        settle(page)
        rows = rows_of(page, "answers")
        assert page.evaluate("tables.answers.rows.length") == len(rows)
        return [[row[i] for i in (0, 8, 5, 2, 3)] for row in rows if row[6] == "0"]

    yes, no = "9 \u2713", "7 \u2717"
    all_right, first, second, none = places = [
        ["a=1", "3", "old", yes, yes], ["a=1", "5", "new", yes, no],
        ["a=2", "3", "old", no, yes], ["a=2", "5", "new", no, no],
    ]  # fmt: skip
    assert asks() == places
    assert asks(verdict="right-wrong") == [first] and asks(verdict="wrong-right") == [second]
    assert asks(verdict="both-right") == [all_right] and asks(verdict="both-wrong") == [none]
    assert asks(**{"from": "4"}) == [first, none] and asks(to="4") == [all_right, second]
    assert asks(**{"from": "4", "to": "4"}) == [] and asks(**{"from": "3", "to": "5"}) == places
    assert asks(slice="a=2") == [second, none] and asks(slice="a=1", group='["kind","new"]') == [first]
    assert asks(group='["kind","old"]') == [all_right, second]
    assert asks(verdict="right-wrong", group='["kind","old"]') == []
    tokens = page.locator("#answer-row .tokens .token")
    for verdict, other in (("right-wrong", "fine"), ("both-wrong", "wrong")):
        asks(verdict=verdict)
        page.locator("#answers tbody button").first.click()
        assert tokens.all_inner_texts() == ["5", "9", *HOSTILE.split(), "5", "7", "5"]
        marked = tokens.evaluate_all("(all) => all.map((each) => each.classList[1] ?? '')")
        assert marked == ["key", "value", "", other, "", "asks"]
    page.evaluate("clear()")


@pytest.mark.records
def test_every_evaluation_of_the_archives_is_drawn_on_its_axes(browser: Any, tmp_path: Path) -> None:
    archives, drawn = [ARCHIVES / f"mini_{name}.zip" for name in NAMES], {}
    with opened(browser, saved(tmp_path / "report.html", *archives)) as page:
        for setting in range(page.locator("#setting option").count()):
            page.select_option("#setting", index=setting)
            settle(page)
            page.evaluate("byId('evaluations-section').open = true")
            options = page.locator("#evaluation option")
            for value in options.evaluate_all("(all) => all.map(({value}) => value)"):
                page.select_option("#evaluation", value)
                page.evaluate("drawEvaluation()")
                page.wait_for_function("() => byId('evaluation-panels').querySelector('.xtitle')")
                plots = page.evaluate(PANELS)
                assert all(numbers == (x != "slice") for x, _, numbers in plots)
                xs, (y, *others) = {x for x, *_ in plots}, {y for _, y, _ in plots}
                name = page.evaluate("DATA.evaluations[byId('evaluation').value].name")
                drawn[name] = (xs, y, len(plots))
                assert not others
    assert drawn == DRAWN
