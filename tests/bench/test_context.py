"""Time and memory against context: what is counted and left out, and the committed table and its numbers."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from benchmarks import context, context_picture

TABLES = Path(__file__).parents[2] / "benchmarks" / "tables"


def test_memory_is_the_most_that_is_held_at_once() -> None:
    def run() -> None:
        first = torch.empty(1000)  # 4,000 bytes
        del first
        kept = [torch.empty(500), torch.empty(1000)]  # 6,000 at once
        del kept

    assert context.peak_bytes(run) == 6000


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], ""),
        ([(1.0, 1e9), (9.0, 2e9)], ""),
        ([(1.0, 1.0), (11.0, 1.0)], "over 10 s"),
        ([(1.0, 1e9), (1.0, 2.5e9)], "over 2 GiB"),
    ],
)
def test_what_would_take_too_much_is_left_out(found: list[tuple[float, float]], why: str) -> None:
    assert context.too_much(found) == why


def test_two_lengths_give_a_table_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "LENGTHS", (64, 128))
    monkeypatch.setattr(context, "seconds", lambda *_: 0.5)
    monkeypatch.setattr(context, "peak_bytes", lambda run: run() or 2**20)
    assert context.main(["--out", str(tmp_path / "context.md")]) == 0
    rows = pd.read_csv(tmp_path / "context.csv")
    assert len(rows) == 2 * 2 * len(context.SUBJECTS) and rows["left_out"].isna().all()
    assert "| S²-Attn | 500, 1 | 500, 1 |" in (tmp_path / "context.md").read_text()
    picture = tmp_path / "context.png"
    assert context_picture.main([str(tmp_path / "context.csv"), "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit):
        context.main(["--longest", "32"])


def test_the_committed_table_is_that_of_its_numbers() -> None:
    assert context.page(pd.read_csv(TABLES / "context.csv")) == (TABLES / "context.md").read_text()
