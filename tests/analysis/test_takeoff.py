"""Take-off as survival: a published example, cells by hand, and the picture."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from analysis.statistics.takeoff import compared, share_off, soonest, takeoffs
from tests.analysis import study

# Weeks in remission of 42 children with leukaemia (Freireich et al. 1963, Blood 21, 699), as survival texts
# print them: with a plus, still in remission when the study ended.
DRUG = "6 6 6 7 10 13 16 22 23 6+ 9+ 10+ 11+ 17+ 19+ 20+ 25+ 32+ 32+ 34+ 35+"
PLACEBO = "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23"


def test_the_estimate_and_the_test_are_those_of_the_textbooks() -> None:
    """Kaplan and Meier's estimate at the weeks of relapse, and a log-rank chi-square of 16.79."""
    frame = pd.DataFrame(
        {"series": name, "step": int(weeks.rstrip("+")), "off": not weeks.endswith("+")}
        for name, line in (("6-MP", DRUG), ("placebo", PLACEBO))
        for weeks in line.split()
    )
    weeks, shares = share_off(frame.loc[frame["series"] == "6-MP"])
    at = dict(zip(weeks.tolist(), (1 - shares).round(3).tolist(), strict=True))
    assert {week: at[week] for week in (6, 7, 10, 13, 16, 22, 23)} == {
        6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448,
    }  # fmt: skip
    [row] = compared(frame).to_dict("records")
    assert [row[name] for name in ("off_a", "cells_a", "off_b", "cells_b")] == [9, 21, 21, 21]
    assert norm.isf(row["p"] / 2) ** 2 == pytest.approx(16.79, abs=0.01) and row["p_holm"] == row["p"]


def test_a_cell_takes_off_when_a_slice_is_half_way_from_chance() -> None:
    """Chance is 1/4 and 1/8, so half way is .625 and .5625."""
    easy, hard = "seq_len=16,num_kv_pairs=4", "seq_len=32,num_kv_pairs=8"
    accuracies = {
        "a": [(10, easy, 0.62), (10, hard, 0.5), (20, easy, 0.63), (20, hard, 0.1), (30, easy, 0.2)],
        "b": [(10, easy, 0.62), (10, hard, 0.56), (20, easy, 0.3), (20, hard, 0.3)],
        "c": [(10, easy, 0.1), (10, hard, 0.57)],
    }  # fmt: skip
    rows = pd.DataFrame(
        {"run_id": run, "step": step, "split": "valid", "slice": name, "metric": "accuracy", "value": value}
        for run, curve in accuracies.items()
        for step, name, value in curve
    )
    others = rows.loc[rows["run_id"] == "a"].assign(run_id="of another task")
    table = pd.DataFrame({"run_id": ["a", "b", "c", "c", "d"], "slice": [easy, hard, easy, hard, hard]})
    table = table.assign(status=["ok"] * 4 + ["diverged"], steps=7)  # d before its first validation
    result = takeoffs(pd.concat([rows, others]), table).set_index("run_id")
    assert result["step"].to_dict() == {"a": 20, "b": 20, "c": 10, "d": 7}
    assert result["off"].to_dict() == {"a": True, "b": False, "c": True, "d": False}


def test_the_soonest_rate_has_the_least_mean_of_all_its_cells() -> None:
    """The rate .1 has a cell too few, and .01 a cell that never took off."""
    steps = {0.001: [40, 50], 0.01: [10, 90], 0.1: [5]}
    rows = pd.DataFrame({"point": "a", "lr": lr, "step": step} for lr, of in steps.items() for step in of)
    assert soonest(rows)[["lr", "step"]].to_numpy().tolist() == [[0.001, 40], [0.001, 50]]


def test_the_share_is_0_or_1_where_none_or_all_take_off() -> None:
    rows = pd.DataFrame({"series": ["x"] * 3 + ["y"] * 3, "step": [5] * 6, "off": [False] * 3 + [True] * 3})
    assert share_off(rows.loc[rows["series"] == "x"])[1].tolist() == [0]
    assert share_off(rows.loc[rows["series"] == "y"])[1].tolist() == [1]
    assert compared(rows)["off_a"].tolist() == [0]


def test_pairs_without_a_test_count_among_those_that_holm_corrects_for() -> None:
    steps = {"x": 5, "y": 5, "z": 9}
    rows = pd.DataFrame(
        {"series": name, "step": step, "off": True} for name, step in steps.items() for _ in range(6)
    )
    result = compared(rows)
    assert result["p"].isna().tolist() == [True, False, False]
    assert result["p_holm"].tolist() == pytest.approx([1.0, *(3 * result["p"].iloc[1:])])


def test_a_seventh_line_of_a_colour_is_drawn(tmp_path: Path) -> None:
    records = [r for width in range(16, 128, 16) for r in study.mixers({"based": [0.9] * 2}, d_model=width)]
    picture = study.drawn("takeoff", tmp_path / "r", records)
    named = [sentence.partition(":")[0] for sentence in picture.sentences[1:]]
    assert [name.split()[-1] for name in named] == sorted(f"d_model={width}" for width in range(16, 128, 16))


def test_the_picture_counts_the_cells_that_have_taken_off(tmp_path: Path) -> None:
    records = study.mixers({"based": [0.9] * 3, "mamba": [0.1] * 3})
    picture = study.drawn("takeoff", tmp_path / "r", records)
    assert [text.rpartition(": ")[2][:6] for text in picture.sentences[1:]] == ["3 of 3", "0 of 3"]
    assert set(picture.tables["log_rank"].columns) >= {"a", "b", "p", "p_holm", "off_a", "cells_b"}
    lines = picture.figure.axes[0].lines
    assert all(np.max(np.asarray(line.get_ydata(), float), initial=0) <= 1.05 for line in lines)
