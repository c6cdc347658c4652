"""Every number that a page quotes is the one that the records give; a wrong digit is named."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.quotes import __main__ as quotes
from analysis.quotes.formulas import Value, values
from analysis.quotes.pages import Entry, check, open_numbers, read
from tests.command import ROOT, Run

PAGES = read(ROOT / "docs" / "quotes.yaml")
OPEN = {"README.md": 1, "docs/toy_frontier.md": 0, "docs/findings.md": 74}  # numbers with a decimal point
BASED = Entry(
    "Based has {} ({} to {})", "mini_based_fig2", formula="(accuracy, low, high)[mixer.feature_dim == 2]"
)
ROWS = pd.DataFrame(dict(mixer=["a", "b"], accuracy=[0.25, 0.75], seed_accuracies=["0.2 0.3", "0.7 0.8"]))


@pytest.mark.records
@pytest.mark.parametrize("page", PAGES)
def test_every_covered_number_is_right_and_no_new_one_is_uncovered(page: str) -> None:
    report = check(ROOT, page, PAGES[page])
    assert not report.wrong
    fractions = [number for _, number in open_numbers(ROOT, page, report) if "." in number]
    assert len(fractions) <= OPEN[page], f"a new number belongs in docs/quotes.yaml: {fractions}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "results").symlink_to(ROOT / "docs" / "results")
    return tmp_path


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("Based has 0.81 (0.80 to\n  0.82).", ""),
        ("Based has 0.81 (0.80 to 0.83).", "0.83 is 0.822266"),
        ("Based has 0.814 (0.80 to 0.82).", "0.814 is 0.8134"),
        ("Based had 0.81 (0.80 to 0.82).", "says this no times"),
        ("Based has 0.81 (0.80 to 0.82). Based has 0.81 (0.80 to 0.82).", "says this 2 times"),
    ],
)
def test_a_wrong_digit_is_named_with_the_right_one(root: Path, page: str, wrong: str) -> None:
    (root / "page.md").write_text(page)
    errors = check(root, "page.md", [BASED]).wrong
    assert bool(errors) == bool(wrong) and wrong in "".join(errors)


def test_uncovered_numbers_are_listed_with_their_lines(root: Path) -> None:
    page = "Based has 0.81 (0.80 to 0.82).\n\nTrained `0.5` on 2,048 rows, at 0.01; [5 of 6](7.md)."
    (root / "page.md").write_text(page)
    report = check(root, "page.md", [BASED])
    assert open_numbers(root, "page.md", report) == [(3, "2,048"), (3, "0.01"), (3, "5"), (3, "6")]


def test_the_command_fails_where_a_page_is_wrong(root: Path, run: Run) -> None:
    (root / "page.md").write_text("Based has 0.81 (0.80 to 0.83), and 7.")
    (root / "quotes.yaml").write_text(
        "page.md:\n- of: mini_based_fig2\n  where: mixer.feature_dim == 2\n"
        "- text: has {} ({?} to {})\n  is: accuracy; high\n"
    )
    out, err = run(quotes.main, "quotes.yaml", "--root", root, "--open", code=1)
    assert "0.83 is 0.822266" in err
    assert "2 numbers computed again, 0 without a record, 2 not covered (1 of them" in out
    assert "page.md:1: 7" in out


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("accuracy", [0.25, 0.75]),
        ("(accuracy, seed_accuracies)[mixer == 'b']", [0.75, 0.7, 0.8]),
        ("100 * accuracy[mixer == 'a']; count(accuracy)", [25, 2]),
        ("accuracy[mixer == 'b'] - accuracy[mixer == 'a']", [0.5]),
        ("round(mean(accuracy), 1); -min(accuracy); max(seed_accuracies)", [0.5, -0.25, 0.8]),
        ("sorted(-seed_accuracies)[1]", [-0.7]),
    ],
)
def test_expressions(formula: str, expected: list[float]) -> None:
    assert [each.value for each in values(formula, ROWS)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("0.25", "computes nothing from the records"),
        ("accuracy - accuracy[mixer == 'a']", "accuracy is 2 values"),
        ("median(accuracy)", "no function median"),
        ("max(accuracy[mixer == 'c'])", "no row is left"),
        ("acuracy", "no column 'acuracy'"),
        ("mixer", "'a' is no number"),
        ("accuracy == 1", "no bound"),
        ("accuracy[2]", r"no \[2\] of 2 values"),
        ("accuracy['a']", r"no \[a\]"),
        ("accuracy +", "no expression"),
        ("__import__('os').system('true')", "no column"),
        ("accuracy.map(print)[0]", "no column"),
        ("[print(x) for x in accuracy]", "no column"),
    ],
)
def test_an_invalid_expression_is_refused_and_not_executed(formula: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        list(values(formula, ROWS))


@pytest.mark.parametrize(
    ("number", "value", "bound", "fits"),
    [
        ("0.25", 0.2549, "==", True), ("0.25", 0.2551, "==", False), ("0.25", 0.255, "==", True),
        ("-0.04", -0.0444, "==", True), ("82,048", 82048, "==", True), ("82,048", 82049, "==", False),
        ("3.16e-3", 0.0031623, "==", True), ("3.16e-3", 0.003, "==", False), ("0.03", 0.02, ">=", True),
        ("0.03", 0.05, ">=", False), ("0.9", 0.97, "<=", True), ("0.9", 0.8, "<=", False),
    ],
)  # fmt: skip
def test_a_number_is_compared_to_its_last_digit(number: str, value: float, bound: str, fits: bool) -> None:
    assert Value(value, bound).fits(number) == fits


def test_a_misspelt_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "quotes.yaml").write_text("page.md:\n- of: x\n- txt: has {}\n")
    with pytest.raises(ValueError, match=r"page\.md: an entry has no txt"):
        read(tmp_path / "quotes.yaml")
