"""Points are made of cells: the learning rate, means over seeds and slices, intervals, refusals."""

from typing import Any

import pandas as pd
import pytest

from analysis.records import cells
from analysis.statistics import learning_rate
from analysis.statistics.learning_rate import choose, good_range, profile
from analysis.statistics.points import points, versions
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
    at = "mixer == 'based' and d_model == 64 and `mixer.feature_dim` == 8 and lr == 3e-3"
    mine = table.query(f"{at} and split == 'test'")
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
    frame = summary(table, [name])
    got = only(frame, mixer="attention")
    mine = table.query(f"mixer == 'attention' and lr == 3e-3 and slice == '{name}' and split == 'test'")
    assert got["accuracy"] == pytest.approx(mine["accuracy"].mean())
    assert got["slice"] == name and got["coverage"] == 1
    assert only(frame, knobs="window=16")["coverage"] == pytest.approx(0.4 * (1 - 3 / 5))


def test_series_are_split_by_settings_that_are_words_and_knobs_are_numbers() -> None:
    """A setting that follows the seed or d_model is no knob."""
    table = fake.table()
    table["mixer.retrieval_seed"] = table["seed"]
    table["mixer.feature_dim"] = table["mixer.feature_dim"].fillna(table["d_model"])
    frame = summary(table)
    assert set(frame["series"]) >= {"SE-Attn, selection=chunk", "SE-Attn, selection=prefix", "Based"}
    knobs = {mixer: set(part) for mixer, part in frame.groupby("mixer")["knobs"]}
    assert knobs["sliding_window"] == {f"window={w}" for w in (8, 16, 32, 64)}
    assert knobs["linear_attention"] == {""}
    assert not frame["knobs"].str.contains("retrieval_seed").any()


def test_the_frontier_uses_the_state_of_its_axis() -> None:
    resident, touched = summary(fake.table()), summary(fake.table(), axis="touched")
    assert not only(resident, series="SE-Attn, selection=prefix")["on_frontier"]
    assert only(touched, series="SE-Attn, selection=prefix")["on_frontier"]
    assert not only(touched, series="SE-Attn, selection=chunk")["on_frontier"]


@pytest.mark.parametrize(("column", "other"), [("task", "copy"), ("n_layers", 4), ("state_seq_len", 512)])
def test_cells_that_no_picture_can_mix_are_refused_with_the_fix(column: str, other: Any) -> None:
    table = fake.table()
    table.loc[table["mixer"] == "mamba", column] = other
    with pytest.raises(ValueError, match=f'One picture shows one {column}.*--where "{column} == '):
        cells.identify(table)


def test_points_that_would_look_the_same_are_refused() -> None:
    table = fake.table()
    table.loc[(table["mixer"] == "hyena") & (table["lr"] == 1e-3), "point"] = "hyena-with-more-steps"
    with pytest.raises(ValueError, match=r"hyena-\d+ and hyena-\d+ would look the same: .* in point;"):
        cells.identify(table)
    with pytest.raises(ValueError, match="they differ in start;"):
        cells.identify(table.assign(start=table["point"]))
    mine = table.assign(mixer=table["mixer"].where(table["point"] != "hyena-with-more-steps", "mine"))
    with pytest.raises(ValueError, match=r"one about.label \(=Hyena\).* with --where \"mixer == 'mine'\""):
        cells.identify(mine)
    table.loc[table["point"] == "hyena-with-more-steps", "steps"] *= 4
    named = cells.identify(table).query("mixer == 'hyena' and status == 'ok'")
    assert set(zip(named["knobs"], named["steps"], strict=True)) == {("steps=600", 600), ("steps=2400", 2400)}
    table.loc[table["run_id"] == named["run_id"].iloc[0], "steps"] = 599  # ended early
    with pytest.raises(ValueError, match="would look the same"):
        cells.identify(table)


def test_points_of_different_source_are_named_where_it_is_not_zoos() -> None:
    made = [r | {"source": {"zoo.B": r["run_id"], "my.A": str(r["seed"])}} for r in fake.records()]
    assert "Hyena d_model=64 has 3 versions of my.A" in versions(summary(fake.table()), made)
    assert not versions(summary(fake.table()), fake.records())


def test_a_finished_cell_without_a_slice_is_refused() -> None:
    table = fake.table()
    gone = (table["run_id"] == "attention-0000") & (table["slice"] == "seq_len=64,num_kv_pairs=8")
    with pytest.raises(ValueError, match="attention-0000 has no valid accuracy for slice 'seq_len=64,num_kv"):
        summary(table[~gone])


NAN, INF = float("nan"), float("inf")


def table(*cells: tuple[float, list[float | None]], test: float = 0.5) -> pd.DataFrame:
    """Return one point.  cells: (lr, validation accuracy of each seed; None: it diverged)."""
    return pd.DataFrame(
        {"run_id": f"{lr}-{seed}", "point": "p", "lr": lr, "seed": seed, "coverage": 1.0, "split": split}
        | {"status": "diverged" if score is None else "ok", "slice": "seq_len=8"}
        | {"accuracy": NAN if score is None else score if split == "valid" else test}
        for lr, scores in cells
        for seed, score in enumerate(scores)
        for split in ("valid", "test")
    )


# scores of each seed at 1e-3, 3e-3 and 1e-2 -> the choice
CHOICES = {
    "the best mean over seeds, not the best seed": (
        [[0.5, 0.5], [0.9, 0.9], [1.0, 0.1]],
        {"lr": 3e-3, "lr_edge": "", "lrs": 3, "valid_accuracy": 0.9},
    ),
    "a rate that diverges on a seed": (
        [[0.7, 0.7], [0.8, 0.8], [1.0, None]],
        {"lr": 3e-3, "diverged_in_grid": 1},
    ),
    "low edge": ([[0.9], [0.5], [0.1]], {"lr_edge": "low", "lr_on_edge": True, "single_lr": False}),
    "high edge": ([[0.1], [0.5], [0.9]], {"lr_edge": "high", "lr_on_edge": True, "single_lr": False}),
    "of two rates each is an edge": ([[0.9], [0.5]], {"lr": 1e-3, "lr_edge": "", "lrs": 2}),
    "one rate is no edge but no choice either": ([[0.9]], {"lr_on_edge": False, "single_lr": True}),
    "a plateau that touches the edge": ([[1.0], [1.0], [0.2]], {"lr": 3e-3, "lr_edge": ""}),
    "fewer seeds do not win by luck yet belong to the grid": (
        [[0.8, 0.8], [0.7, 0.7], [0.9]],
        {"lr": 1e-3, "lr_edge": "low", "lrs": 3},
    ),
}


@pytest.mark.parametrize(("scores", "known"), CHOICES.values(), ids=CHOICES)
def test_which_learning_rate_is_chosen(scores: list[list[float | None]], known: dict[str, Any]) -> None:
    best = choose(table(*zip((1e-3, 3e-3, 1e-2), scores, strict=False))).iloc[0]
    assert best[[*known]].to_dict() == pytest.approx(known)


def test_the_test_split_does_not_choose_the_learning_rate() -> None:
    cells = table((1e-3, [0.5]), (3e-3, [0.9]), (1e-2, [0.6]))
    cells.loc[(cells["split"] == "test") & (cells["lr"] == 1e-2), "accuracy"] = 1.0
    assert choose(cells)["lr"].item() == 3e-3


def test_the_choice_does_not_depend_on_the_order_of_the_rows() -> None:
    cells = table((1e-3, [0.5, 0.4]), (3e-3, [0.9, None]), (1e-2, [0.6, 0.7]))
    pd.testing.assert_frame_equal(choose(cells), choose(cells.sample(frac=1, random_state=1)))
    assert profile(cells)["valid_accuracy"].tolist() == pytest.approx([0.45, 0.45, 0.65])


def test_a_choice_without_a_validation_split_is_refused() -> None:
    cells = table((3e-3, [0.9]))
    with pytest.raises(ValueError, match="no validation split"):
        choose(cells[cells["split"] == "test"])


# (rate, scores of each seed) of a grid -> the range, its least and greatest width, whether each end is open
RANGES = {
    "neighbours that come close": (
        [(1e-4, [0.2]), (1e-3, [0.86]), (1e-2, [0.9]), (1e-1, [0.84]), (1.0, [0.9])],
        (1e-3, 1e-2, 1, 3, False, False),
    ),
    "up to the edge": ([(1e-3, [0.9]), (1e-2, [0.88]), (1e-1, [0.1])], (1e-3, 1e-2, 1, INF, True, False)),
    "a single rate": ([(1e-2, [0.9])], (1e-2, 1e-2, 0, INF, True, True)),
    "not a rate that lacks seeds": ([(1e-3, [0.9, 0.9]), (1e-2, [0.9])], (1e-3, 1e-3, 0, INF, True, False)),
}


@pytest.mark.parametrize(("cells", "known"), RANGES.values(), ids=RANGES)
def test_the_range_of_good_learning_rates(cells: list[Any], known: tuple[float, ...]) -> None:
    result = good_range(table(*cells)).iloc[0]
    names = ["good_low", "good_high", "decades", "decades_most", "open_low", "open_high"]
    assert tuple(result[names]) == pytest.approx(known)
