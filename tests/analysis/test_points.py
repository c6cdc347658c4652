"""From cells to points: the learning rate, means over seeds and slices, intervals, and what is refused."""

import pandas as pd
import pytest

from analysis.records import cells
from analysis.statistics import learning_rate
from analysis.statistics.learning_rate import choose, good_range, profile
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


NAN = float("nan")


def table(*cells: tuple[float, list[float | None]], test: float = 0.5) -> pd.DataFrame:
    """One point.  cells: (lr, validation accuracy of each seed; None diverged); test says nothing."""
    rows = []
    for lr, scores in cells:
        for seed, score in enumerate(scores):
            cell = {
                "run_id": f"{lr}-{seed}", "point": "p", "lr": lr, "seed": seed, "coverage": 1.0,
                "status": "diverged" if score is None else "ok",
            }  # fmt: skip
            accuracy = NAN if score is None else score
            rows.append(cell | {"split": "valid", "slice": "seq_len=8", "accuracy": accuracy})
            rows.append(
                cell | {"split": "test", "slice": "seq_len=8", "accuracy": NAN if score is None else test}
            )
    return pd.DataFrame(rows)


def test_the_best_mean_over_seeds_wins_not_the_best_seed() -> None:
    best = choose(table((1e-3, [0.5, 0.5]), (3e-3, [0.9, 0.9]), (1e-2, [1.0, 0.1]))).iloc[0]
    assert (best["lr"], best["lr_edge"], best["lrs"]) == (3e-3, "", 3)
    assert best["valid_accuracy"] == pytest.approx(0.9)


def test_the_test_split_has_no_say() -> None:
    cells = table((1e-3, [0.5]), (3e-3, [0.9]), (1e-2, [0.6]))
    cells.loc[(cells["split"] == "test") & (cells["lr"] == 1e-2), "accuracy"] = 1.0
    assert choose(cells)["lr"].item() == 3e-3


def test_a_learning_rate_that_diverges_on_a_seed_is_not_favoured() -> None:
    best = choose(table((1e-3, [0.7, 0.7]), (3e-3, [0.8, 0.8]), (1e-2, [1.0, None]))).iloc[0]
    assert (best["lr"], best["diverged_in_grid"]) == (3e-3, 1)


@pytest.mark.parametrize(("scores", "edge"), [([0.9, 0.5, 0.1], "low"), ([0.1, 0.5, 0.9], "high")])
def test_the_edge_of_the_grid_is_flagged(scores: list[float], edge: str) -> None:
    best = choose(table(*[(lr, [s]) for lr, s in zip((1e-3, 3e-3, 1e-2), scores, strict=True)])).iloc[0]
    assert (best["lr_edge"], best["lr_on_edge"], best["single_lr"]) == (edge, True, False)


def test_one_learning_rate_is_no_edge_but_no_choice_either() -> None:
    best = choose(table((3e-3, [0.9]))).iloc[0]
    assert (best["lr_on_edge"], best["single_lr"]) == (False, True)


def test_a_plateau_that_touches_the_edge_raises_no_flag() -> None:
    best = choose(table((1e-3, [1.0]), (3e-3, [1.0]), (1e-2, [0.2]))).iloc[0]
    assert (best["lr"], best["lr_edge"]) == (3e-3, "")


def test_fewer_seeds_do_not_win_by_luck_yet_belong_to_the_grid() -> None:
    best = choose(table((1e-3, [0.8, 0.8]), (3e-3, [0.7, 0.7]), (1e-2, [0.9]))).iloc[0]
    assert (best["lr"], best["lr_edge"], best["lrs"]) == (1e-3, "low", 3)


def test_no_choice_depends_on_the_order_of_the_rows() -> None:
    cells = table((1e-3, [0.5, 0.4]), (3e-3, [0.9, None]), (1e-2, [0.6, 0.7]))
    pd.testing.assert_frame_equal(choose(cells), choose(cells.sample(frac=1, random_state=1)))
    assert profile(cells)["valid_accuracy"].tolist() == pytest.approx([0.45, 0.45, 0.65])


def test_without_validation_there_is_no_choice() -> None:
    cells = table((3e-3, [0.9]))
    with pytest.raises(ValueError, match="no validation split"):
        choose(cells[cells["split"] == "test"])


def width(*cells: tuple[float, list[float | None]]) -> dict:
    return good_range(table(*cells)).iloc[0].to_dict()


def test_the_good_range_is_the_neighbours_that_come_close() -> None:
    """Good from 1e-3 to 1e-2, so one decade wide at least, three at most."""
    found = width((1e-4, [0.2]), (1e-3, [0.86]), (1e-2, [0.9]), (1e-1, [0.84]), (1.0, [0.9]))
    assert (found["good_low"], found["good_high"]) == (1e-3, 1e-2)
    assert found["decades"] == pytest.approx(1) and found["decades_most"] == pytest.approx(3)
    assert not found["open_low"] and not found["open_high"]


def test_a_good_range_that_touches_the_edge_is_open() -> None:
    found = width((1e-3, [0.9]), (1e-2, [0.88]), (1e-1, [0.1]))
    assert found["open_low"] and not found["open_high"]
    assert found["decades"] == pytest.approx(1) and found["decades_most"] == float("inf")


def test_a_single_rate_says_nothing_about_the_width() -> None:
    found = width((1e-2, [0.9]))
    assert found["decades"] == 0 and found["decades_most"] == float("inf")
    assert found["open_low"] and found["open_high"]


def test_a_rate_that_lacks_seeds_is_not_good() -> None:
    found = width((1e-3, [0.9, 0.9]), (1e-2, [0.9]))
    assert found["good_high"] == 1e-3 and not found["open_high"]
