"""`python -m zoo.plan mixer=...` shows the state's size by formula and as counted on tensors."""

import io
import re
from collections.abc import Callable
from functools import partial

import pandas as pd
import pytest

from tests.command import Run
from zoo import plan
from zoo.launch import state_table
from zoo.mixers.sliding_window import SlidingWindow
from zoo.mixers.state import StateSize

WINDOW = ("mixer=sliding_window", "d_model=16")  # keeps 2 * 16 * (window - 1), window 8
NO_FORMULA = "mixer.about.state=null"  # a size that it does not give is refused
Table = Callable[..., str]


@pytest.fixture
def table(run: Run) -> Table:
    return partial(run.done, plan.main)


def rows(out: str) -> list[list[str]]:
    """Return the fields of each line of a table; the first is empty below another of the same mixer."""
    text = "\n".join(line.rstrip() for line in out.splitlines())
    lines = [line for part in text.split("───\n")[1:] for line in part.split("\n\n")[0].splitlines()]
    return [re.split(r"\s{2,}", line[1:]) for line in lines]


def csv(out: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(out))


def test_one_line_for_each_size(table: Table):
    lines = rows(table(*WINDOW, "--seq-lens", "1,3,7,8,64,1024,2000"))
    assert lines[:3] == [
        ["sliding_window", "1", "32", "32", "32", "64", "128"],
        ["", "3", "96", "96", "96", "192", "384"],
        ["", "7", "224", "224", "224", "448", "896"],
    ]
    assert lines[3] == ["", "8 / 64 / 1,024 / 2,000*", "224", "224", "256", "448", "896"]
    assert lines[4][0] == "sliding_window"
    assert "min(seq_len, window - 1)" in lines[4][1]


def test_the_measured_size_is_counted_on_tensors(table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SlidingWindow, "state_size", lambda *of: StateSize(paper=1, resident=2, touched=2))
    frame = csv(table(*WINDOW, NO_FORMULA, "--csv"))
    assert list(frame.resident) == [2, 2, 2]
    assert list(frame.measured[:2]) == [224, 224]
    assert frame.measured.isna().tolist() == [False, False, True]


def test_a_mixer_that_cannot_decode_is_not_measured(table: Table):
    (line,) = (row for row in rows(table("mixer=nystromformer", "--seq-lens", "64")) if row[1][:2] == "64")
    assert line[1] == "64*" and line[3] == "-"


def test_a_length_that_a_mixer_cannot_read_is_not_measured(table: Table):
    frame = csv(table("mixer=hyena", "mixer.max_len=128", "--seq-lens", "64,1024", "--csv"))
    assert frame.resident.notna().all() and frame.measured.isna().tolist() == [False, True]


def test_a_model_too_large_to_run_is_not_measured(table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(state_table, "LARGEST_MEASURED", 100)
    line = rows(table(*WINDOW, "--seq-lens", "64"))[0]
    assert line == ["sliding_window", "64*", "224", "-", "256", "448", "896"]


def test_a_length_that_a_mixer_refuses_has_no_size(table: Table, monkeypatch: pytest.MonkeyPatch):
    def bounded(self: SlidingWindow, seq_len: int) -> StateSize:
        if seq_len > 128:
            raise ValueError("too long")
        return StateSize(paper=None, resident=224, touched=224)

    monkeypatch.setattr(SlidingWindow, "state_size", bounded)
    assert rows(table(*WINDOW, NO_FORMULA, "--seq-lens", "64,2000"))[1] == ["", "2,000*", *["-"] * 5]


def test_entries_are_named_by_the_settings_that_differ(table: Table):
    out = table("mixer=sliding_window", "d_model=16,32", "mixer.window=2,3", "lr=0.1,0.2", "--seq-lens", "64")
    sizes = ["d_model=16 window=2", "d_model=16 window=3", "d_model=32 window=2", "d_model=32 window=3"]
    assert [row[0] for row in rows(out)[:4]] == [f"sliding_window {settings}" for settings in sizes]


def test_a_csv_is_tidy(table: Table):
    frame = csv(table("mixer=gla,mamba", "--csv"))
    assert tuple(frame.columns) == state_table.COLUMNS
    assert len(frame) == 6
    assert (frame.bytes_bf16 == 2 * frame.resident).all()
    assert (frame.bytes_fp32 == 4 * frame.resident).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *(
            ((*WINDOW, "--seq-lens", n), f"--seq-lens (={n}) must be positive integers, such as 64,1024.")
            for n in ("64,none", "0")
        ),
        (("-m", *WINDOW, "--csv"), "--csv belongs to the state table: leave out -m."),
        (("-m", *WINDOW, "--seq-lens", "64"), "--seq-lens belongs to the state table: leave out -m."),
        (("mixer=mmba",), "unknown mixer mmba; did you mean mamba?"),
        (("mixer=glob(nothing*)",), "mixer"),
    ],
)
def test_a_mistake_is_refused_in_one_line(words: tuple[str, ...], message: str, run: Run):
    assert message in run.line(plan.main, *words)
