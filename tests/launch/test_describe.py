"""What is printed of a cell before it runs, and what a large sweep shows stays short."""

import pytest

from tests.analysis import fake
from tests.registry import composer
from zoo.launch import display, score_tables
from zoo.launch.describe import describe
from zoo.results.outcome import Failure

WHOLE = [
    "",
    "n_layers=4",
    "mixer=mamba2 model=mamba2_hybrid",
    "model.layers=[mixer] n_layers=3",
    "model=jamba",
]


def note(words: str) -> str | None:
    return describe(composer().cell(words.split())).get("note")


def test_a_stack_that_ends_on_its_convolution_says_so() -> None:
    said = note("n_layers=3")
    assert said == "3 layers end on BaseConv, within a pattern of 2: n_layers=4 ends on LinearAttention"


@pytest.mark.parametrize("words", WHOLE)
def test_other_stacks_say_nothing(words: str) -> None:
    assert note(words) is None


def test_another_precision_is_named_for_it_makes_another_cell() -> None:
    gpu = describe(composer().cell(["trainer=gpu"]))
    assert gpu["precision"] == "bf16-mixed, of trainer=gpu; in 32-true it is another cell"
    assert "precision" not in describe(composer().cell([]))


def test_the_tables_at_the_end_are_cut_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for module in (display, score_tables):
        monkeypatch.setattr(module, "MOST_ROWS", 5)
    records = [record | {"knob": {}} for record in fake.records(seeds=1)]
    assert score_tables.result_table(records).row_count == 5
    shown = display.SweepDisplay(total=51, done=51, how="")
    failures = [Failure(composer().cell([f"seed={seed}"]), "why") for seed in range(7)]
    shown.report(records, failures)
    out = capsys.readouterr().out
    assert "and 46 more: python -m zoo.collect writes them all" in out
    assert out.count("why") == 5 and "and 2 more: python -m zoo.status counts them by error" in out
    shown.report(records[:5], failures[:5])
    assert "more" not in capsys.readouterr().out
