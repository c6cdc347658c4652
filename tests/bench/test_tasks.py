"""Rows a second of a task, and how long that makes 100,000 rows of 128 tokens."""

import pytest

from benchmarks import tasks


def test_a_task_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert tasks.main(["parity", "--seconds", "0.001"]) == 0
    assert "| `parity` | 32 |" in capsys.readouterr().out
    monkeypatch.setattr(tasks, "rows_a_second", lambda *_: 1000.0)
    tasks.main(["parity"])
    assert capsys.readouterr().out.endswith("| `parity` | 32 | 1,000 | 4e+02 |\n")
