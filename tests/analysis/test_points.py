"""From cells to points: means over seeds and slices, intervals, diverged seeds, and what is refused."""

import pandas as pd
import pytest

from analysis.records import cells
from analysis.statistics import learning_rate
from analysis.statistics.points import points
from tests.analysis import fake


def summary(table: pd.DataFrame, slices: list[str] | None = None, axis: str = "resident") -> pd.DataFrame:
    table = cells.identify(table)
    of = slices or cells.slices(table, "test")
    return points(table, learning_rate.choose(table), split="test", slices=of, axis=axis)


def only(frame: pd.DataFrame, **wanted: object) -> pd.Series:
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_a_point_is_the_mean_over_seeds_of_the_mean_over_slices() -> None:
    table = fake.table()
    got = only(summary(table), mixer="based", d_model=64, knobs="feature_dim=8")
    mine = table[
        (table["mixer"] == "based")
        & (table["d_model"] == 64)
        & (table["mixer.feature_dim"] == 8)
        & (table["lr"] == 3e-3)
        & (table["split"] == "test")
    ]
    assert (got["seeds"], got["diverged"], got["lr"]) == (3, 0, 3e-3)
    assert got["accuracy"] == pytest.approx(mine["accuracy"].mean())
    by_seed = mine.groupby("seed")["accuracy"].mean()
    assert (got["low"], got["high"]) == pytest.approx((by_seed.min(), by_seed.max()))
    assert got["slice"] == "mean of 4 slices"


def test_a_diverged_seed_counts_as_zero_and_is_counted() -> None:
    got = only(summary(fake.table()), mixer="mamba", knobs="d_state=16")
    assert (got["seeds"], got["diverged"], got["low"]) == (3, 1, 0.0)
    assert got["accuracy"] == pytest.approx(got["accuracy_finished"] * 2 / 3)


def test_one_slice_is_that_slice_alone() -> None:
    table, name = fake.table(), "seq_len=128,num_kv_pairs=32"
    got = only(summary(table, [name]), mixer="attention")
    mine = table[(table["mixer"] == "attention") & (table["lr"] == 3e-3) & (table["slice"] == name)]
    assert got["accuracy"] == pytest.approx(mine.loc[mine["split"] == "test", "accuracy"].mean())
    assert got["slice"] == name


def test_coverage_is_that_of_the_slices() -> None:
    frame = summary(fake.table(), ["seq_len=32,num_kv_pairs=4"])
    assert only(frame, knobs="window=16")["coverage"] == pytest.approx(0.4)
    assert only(frame, mixer="attention")["coverage"] == 1


def test_slices_go_from_short_to_long() -> None:
    assert cells.slices(fake.table(), "test") == [f"seq_len={n},num_kv_pairs={k}" for n, k in fake.SLICES]


def test_series_are_split_by_settings_that_are_words_and_knobs_are_numbers() -> None:
    frame = summary(fake.table())
    assert set(frame["series"]) >= {"SE-Attn, selection=chunk", "SE-Attn, selection=prefix", "Based"}
    assert set(frame.loc[frame["mixer"] == "sliding_window", "knobs"]) == {
        f"window={w}" for w in (8, 16, 32, 64)
    }
    assert set(frame.loc[frame["mixer"] == "linear_attention", "knobs"]) == {""}


def test_a_setting_that_follows_the_seed_is_no_knob() -> None:
    table = fake.table()
    table["mixer.retrieval_seed"] = table["seed"]
    assert not summary(table)["knobs"].str.contains("retrieval_seed").any()


def test_a_setting_that_only_follows_d_model_is_no_knob() -> None:
    table = fake.table()
    table["mixer.feature_dim"] = table["mixer.feature_dim"].fillna(table["d_model"])
    frame = summary(table)
    assert set(frame.loc[frame["mixer"] == "linear_attention", "knobs"]) == {""}


def test_the_frontier_uses_the_state_that_is_asked_for() -> None:
    resident, touched = summary(fake.table()), summary(fake.table(), axis="touched")
    assert not only(resident, series="SE-Attn, selection=prefix")["on_frontier"]
    assert only(touched, series="SE-Attn, selection=prefix")["on_frontier"]
    assert not only(touched, series="SE-Attn, selection=chunk")["on_frontier"]


@pytest.mark.parametrize("column", ["task", "n_layers", "state_seq_len"])
def test_a_mix_that_no_picture_can_show_is_refused_with_the_way_out(column: str) -> None:
    table = fake.table()
    other = {"task": "copy", "n_layers": 4, "state_seq_len": 512}[column]
    table.loc[table["mixer"] == "mamba", column] = other
    with pytest.raises(ValueError, match=f'One picture shows one {column}.*--where "{column} == '):
        cells.identify(table)


def test_points_that_would_look_the_same_are_refused() -> None:
    table = fake.table()
    table.loc[(table["mixer"] == "hyena") & (table["lr"] == 1e-3), "point"] = "hyena-with-more-steps"
    with pytest.raises(ValueError, match=r"hyena-\d+ and hyena-\d+ would look the same"):
        cells.identify(table)


def test_a_finished_cell_without_a_slice_is_refused() -> None:
    table = fake.table()
    gone = (table["run_id"] == "attention-0000") & (table["slice"] == "seq_len=64,num_kv_pairs=8")
    with pytest.raises(ValueError, match="attention-0000 has no valid accuracy for slice 'seq_len=64,num_kv"):
        summary(table[~gone])
