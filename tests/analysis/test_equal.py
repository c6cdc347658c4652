"""Series at equal state and at equal accuracy, and two of them seed by seed."""

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.equal import accuracies, accuracy_at, by_seed, least_states, state_at
from analysis.statistics.paired import at_equal_state, compare, p_value
from tests.analysis import handmade

XS, YS = np.array([16.0, 1.0, 4.0]), np.array([0.9, 0.1, 0.5])
ROWS = [
    ("a", 1.0, [0.0, 0.2, 0.1]),
    ("a", 4.0, [0.4, 0.6, 0.5]),
    ("b", 2.0, [0.1, 0.2, 0.3]),
    ("b", 8.0, [0.7, 0.8, 0.9]),
]


@pytest.mark.parametrize(("state", "accuracy"), [(1, 0.1), (2, 0.3), (4, 0.5), (8, 0.7), (16, 0.9)])
def test_accuracy_is_interpolated_over_doublings_of_the_state(state: float, accuracy: float) -> None:
    assert accuracies(XS, YS, state) == pytest.approx(accuracy)
    assert least_states(XS, YS, accuracy) == pytest.approx(state)


def test_nothing_is_extrapolated() -> None:
    assert np.isnan(accuracies(XS, YS, 0.99)) and np.isnan(accuracies(XS, YS, 16.01))
    assert np.isnan(least_states(XS, YS, 0.91)) and np.isnan(least_states(XS, YS, 0.09))


def test_a_worse_point_with_more_state_lowers_nothing() -> None:
    worse = np.array([1.0, 2.0, 4.0]), np.array([0.4, 0.2, 0.8])
    assert accuracies(*worse, 2.0) == pytest.approx(0.4)
    assert least_states(*worse, 0.6) == pytest.approx(2**1.5)


def test_each_row_is_interpolated_alone() -> None:
    both = np.stack([YS, YS[[1, 0, 2]]])
    assert accuracies(XS, both, 2.0)[0] == pytest.approx(0.3)
    assert accuracies(XS, both, 1.0) == pytest.approx([0.1, 0.9])


def test_series_at_equal_state() -> None:
    result = accuracy_at(*handmade.both(ROWS), [2.0]).set_index("series")
    assert result["accuracy"].to_dict() == pytest.approx({"a": 0.3, "b": 0.2})
    assert result.loc["b", ["low", "high"]].tolist() == pytest.approx([0.1, 0.3])
    assert result.loc["a", "low"] > 0.2 and result.loc["a", "seeds"] == 3
    outside = accuracy_at(*handmade.both(ROWS), [8.0]).set_index("series")
    assert outside.loc["a", ["accuracy", "low", "high"]].isna().all()
    assert outside.loc["b", "accuracy"] == pytest.approx(0.8)


def test_series_at_equal_accuracy() -> None:
    result = state_at(*handmade.both(ROWS), 0.5).set_index("series")
    assert result["state"].to_dict() == pytest.approx({"a": 4.0, "b": 4.0})
    assert result.loc["b", "low"] < 4 < result.loc["b", "high"]
    assert result.loc["b", "reached"] == 1 and 0.3 < result.loc["a", "reached"] < 0.8
    above = state_at(*handmade.both(ROWS), 0.85)
    below = state_at(*handmade.both(ROWS), 0.05)
    assert above["censored"].tolist() == ["above"] * 2 and below["censored"].tolist() == ["below"] * 2


def test_one_seed_leaves_no_interval() -> None:
    single = [("a", 1.0, [0.2]), ("a", 4.0, [0.6])]
    result = accuracy_at(*handmade.both(single), [2.0])
    assert result["accuracy"].item() == pytest.approx(0.4) and np.isnan(result["low"].item())


def test_each_seed_has_its_curve() -> None:
    result = by_seed(*handmade.both(ROWS), "a", 2.0)
    assert result.to_dict() == pytest.approx({0: 0.2, 1: 0.4, 2: 0.3})
    assert by_seed(*handmade.both(ROWS), "a", 5.0).empty


def test_every_seed_is_read_at_the_point_that_leads_by_its_mean() -> None:
    """The best point of each seed would say 1.0, though no point has a mean above .6."""
    lucky = [("a", 1.0, [1.0, 0.0, 0.5]), ("a", 2.0, [0.0, 1.0, 0.2]), ("a", 4.0, [0.5, 0.4, 0.9])]
    assert by_seed(*handmade.both(lucky), "a", 2.0).to_dict() == pytest.approx({0: 1.0, 1: 0.0, 2: 0.5})
    assert by_seed(*handmade.both(lucky), "a", 4.0).to_dict() == pytest.approx({0: 0.5, 1: 0.4, 2: 0.9})


def test_pairs_are_of_equal_seeds() -> None:
    a, b = pd.Series({0: 0.5, 1: 0.7, 2: 0.6}), pd.Series({2: 0.5, 1: 0.6, 7: 0.0})
    result = compare(a, b)
    assert result["pairs"] == 2 and result["difference"] == pytest.approx(0.1)
    assert result["p"] == result["least_p"] == 0.5
    assert compare(a, pd.Series({9: 0.1}))["pairs"] == 0


def test_pairing_removes_the_spread_between_seeds() -> None:
    seeds = pd.Series(np.linspace(0.1, 0.9, 8))
    result = compare(seeds + 0.01, seeds)
    assert (result["low"], result["high"]) == pytest.approx((0.01, 0.01)) and result["p"] == 2 / 2**8


@pytest.mark.parametrize(
    ("differences", "p"),
    [([1, 1, 1], 2 / 8), ([1, 1, -1], 1.0), ([3, 1, -1], 6 / 8), ([0, 0, 0], 1.0), ([1] * 10, 2 / 1024)],
)
def test_p_counts_the_exchanges_of_sign(differences: list[float], p: float) -> None:
    for size in (1.0, 1e-13, 1e6):  # in whatever unit
        assert p_value(size * np.array(differences, float)) == p


def test_many_pairs_are_sampled() -> None:
    rng = np.random.default_rng(0)
    ones = pd.Series(np.ones(30))
    assert p_value(np.ones(30)) == compare(ones, 0 * ones)["least_p"] == 2**-14
    assert p_value(rng.normal(size=30)) > 0.01


def test_two_series_are_compared_in_the_middle_of_their_overlap() -> None:
    result = at_equal_state(*handmade.both(ROWS))
    row = result.iloc[0]
    assert (row["a"], row["b"]) == ("a", "b") and row["state"] == pytest.approx(8**0.5)
    assert row["pairs"] == 3 and row["difference"] == pytest.approx(0.05)
    apart = [("a", 1.0, [0.1, 0.1]), ("b", 2.0, [0.1, 0.1])]
    assert at_equal_state(*handmade.both(apart)).empty
