"""Accuracy against each quantity there is an axis for: which number is drawn, its unit, its frontier."""

import numpy as np
import pytest

from analysis.pareto import pareto
from analysis.statistics.axes import AXES
from analysis.statistics.seeds import top
from tests.analysis import fake
from tests.analysis.test_picture import one_panel


@pytest.mark.parametrize("axis", ["paper", "touched"])
def test_the_other_counts_of_state(axis: str) -> None:
    other = pareto(fake.table(), axis=axis)
    picture = one_panel(other.points, list(other.by_slice), axis=axis)
    assert "what one decode step reads" not in [text.get_text() for text in picture.legends[0].get_texts()]
    marks = {tuple(np.round(at, 6)) for c in picture.axes[0].collections for at in c.get_offsets()}
    known = other.points.dropna(subset=[f"state_{axis}"])
    assert len(known) == (15 if axis == "paper" else 17)
    for row in known.to_dict("records"):
        assert (round(row[f"state_{axis}"], 6), round(top(row), 6)) in marks


def test_where_more_is_better_the_frontier_turns_round() -> None:
    table = fake.table()
    fast = {"mamba": 900.0, "based": 500.0, "sliding_window": 400.0}
    table["decode_tokens_per_second"] = table["mixer"].map(fast).where(table["causal"])
    shown = pareto(table, axis="throughput")
    on = shown.points.loc[shown.points["on_frontier"]]
    assert on[["mixer", "knobs"]].to_numpy().tolist() == [["based", "feature_dim=16"], ["mamba", "d_state=8"]]
    (stair,) = [line for line in shown.picture().axes[0].lines if line.get_drawstyle() == "steps-pre"]
    xs, ys = np.asarray(stair.get_xdata()), np.asarray(stair.get_ydata())
    assert xs[1:].tolist() == [500, 900] and xs[0] < 1e-3
    assert ys[0] == ys[1] > ys[2]
    assert ["6 points have no decode_tokens_per_second" in note for note in shown.notes] == [True]


@pytest.mark.parametrize(("axis", "times"), [("fp32", 4), ("bf16", 2)])
def test_bytes_are_the_resident_state_times_the_size_of_a_scalar(axis: str, times: int) -> None:
    shown = pareto(fake.table(), axis=axis)
    assert (shown.points[f"bytes_{axis}"] == times * shown.points["state_resident"]).all()
    assert "bytes per sequence" in shown.picture().axes[0].get_xlabel()


def test_every_axis_has_a_unit_and_numbers() -> None:
    table = fake.table().query("lr == 0.003 and mixer == 'based'")
    rows = pareto(table.assign(decode_tokens_per_second=3e4, operations=2e12)).points
    for name, axis in AXES.items():
        ax = one_panel(rows, ["seq_len=32,num_kv_pairs=4"], axis=name).axes[0]
        assert f"({axis.unit})" in ax.get_xlabel().replace("\n", " ")
        assert any(tick.get_text() for tick in ax.get_xticklabels()), name


def test_measured_quantities_are_the_median_of_the_seeds_that_finished() -> None:
    table = fake.table()
    table["wall_seconds"] = 10.0 + table["seed"] ** 3
    table.loc[(table["mixer"] == "mamba") & (table["status"] == "diverged"), "wall_seconds"] = 1.0
    rows = pareto(table, axis="seconds").points
    assert rows.loc[rows["mixer"] != "mamba", "wall_seconds"].eq(11).all()
    assert rows.loc[rows["knobs"] == "d_state=16", "wall_seconds"].tolist() == [14.5]  # seed 0 diverged
