"""What a large sweep shows stays short."""

import pytest

from tests.analysis import fake
from zoo.config.compose import composer
from zoo.launch import display, score_tables
from zoo.results.outcome import Failure


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
