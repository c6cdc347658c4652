"""Intervals of few seeds; the frontier, how often points are on it, and the area below it."""

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.equal import area, under
from analysis.statistics.frontier import frontier, non_dominated
from analysis.statistics.seeds import BOOTSTRAP, NONE, RANGE, interval, percentiles, solved, wilson
from analysis.statistics.uncertainty import on_frontier, resampled
from tests.analysis import handmade


def test_the_interval_of_few_seeds() -> None:
    assert interval(np.array([0.4, 0.6])) == (0.4, 0.6, RANGE)
    assert interval(np.array([0.5, 0.9, 0.7])) == (0.5, 0.9, RANGE)
    assert interval(np.array([0.5, 0.9, 0.7, 0.6]))[2] == BOOTSTRAP
    assert interval(np.array([0.5]))[2] == NONE and np.isnan(interval(np.array([0.5]))[0])


def test_the_interval_of_many_seeds_is_that_of_their_mean() -> None:
    scores = np.random.default_rng(1).normal(0.5, 0.1, 200)
    low, high, _ = interval(scores)
    error = 1.96 * scores.std() / np.sqrt(200)
    assert (scores.mean() - low, high - scores.mean()) == pytest.approx((error, error), rel=0.1)


@pytest.mark.parametrize(("seeds", "covered"), [(3, 0.75), (10, 0.90)])
def test_intervals_of_few_seeds_cover_less_than_their_nominal_share(seeds: int, covered: float) -> None:
    """The shares that `interval` states, for normal scores."""
    drawn = np.random.default_rng(0).normal(size=(200, seeds))
    holds = [low <= 0 <= high for low, high, _ in map(interval, drawn)]
    assert np.mean(holds) == pytest.approx(covered, abs=0.08)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(3, 3, 0.4385, 1.0), (0, 3, 0.0, 0.5615), (5, 10, 0.2366, 0.7634), (1, 20, 0.0089, 0.2361)],
)
def test_wilson_against_the_published_formula(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-4)


def test_a_seed_at_the_threshold_has_solved_the_task() -> None:
    share, low, high = solved(np.array([0.99, 0.9899, 1.0, 0.0]))
    assert share == 0.5 and low < 0.5 < high
    assert solved(np.array([0.5, 0.4]), threshold=0.5)[0] == 0.5


def points(*pairs: tuple[float, float], **columns: object) -> pd.DataFrame:
    frame = pd.DataFrame(pairs, columns=["state_resident", "accuracy"])
    return frame.assign(**({"causal": True, "exact_decode": True, "diverged": 0, "seeds": 3} | columns))


@pytest.mark.parametrize(
    ("pairs", "on"),
    [
        ([(1, 0.1), (2, 0.5), (4, 0.9)], [True, True, True]),
        ([(1, 0.5), (2, 0.4), (4, 0.9)], [True, False, True]),
        ([(4, 0.9), (2, 0.4), (1, 0.5)], [True, False, True]),
        ([(1, 0.3), (1, 0.5)], [False, True]),  # equal state: the better
        ([(1, 0.5), (2, 0.5)], [True, False]),  # equal accuracy: the smaller
        ([(1, 0.5), (1, 0.5), (2, 0.2)], [True, True, False]),  # equal in both: together
        ([(3, 0.7)], [True]),
        ([], []),
    ],
)
def test_the_frontier_keeps_undominated_points(pairs: list[tuple[float, float]], on: list[bool]) -> None:
    frame = points(*pairs).set_axis([7, 3, 5][: len(pairs)])
    assert frontier(frame).to_dict() == dict(zip(frame.index, on, strict=True))


@pytest.mark.parametrize(
    "apart",
    [
        *({"causal": [False, True]}, {"exact_decode": [False, True]}, {"diverged": [3, 0]}),
        {"state_resident": [np.nan, 7.0]},  # it lacks this count of state
    ],
)
def test_excluded_points_are_not_on_the_frontier_and_dominate_none(apart: dict[str, object]) -> None:
    assert frontier(points((1, 0.9), (2, 0.5), **apart)).tolist() == [False, True]


SURE = [("a", 1.0, [0.1, 0.1, 0.1]), ("a", 2.0, [0.5, 0.5, 0.5]), ("a", 4.0, [0.3, 0.3, 0.3])]


def share(rows: handmade.Rows) -> list[float]:
    return on_frontier(*handmade.both(rows)).tolist()


def test_the_share_on_the_frontier_is_that_of_its_draws() -> None:
    """Always or never where no seed moves it.

    The second of two has seeds 0 and 1, the first 0.4 twice: it is above in 3 draws of 4 (means .5 and 1)."""
    assert share(SURE) == [1, 1, 0]
    result = share([("a", 1.0, [0.4, 0.4]), ("b", 2.0, [0.0, 1.0])])
    assert result[0] == 1 and result[1] == pytest.approx(0.75, abs=0.03)


def test_the_seeds_of_two_points_are_drawn_independently() -> None:
    """Equal states: the higher stays.  Means 0, 1/2, 1/2, 1: one is higher or level in 11 of 16."""
    result = share([("a", 1.0, [0.0, 1.0]), ("b", 1.0, [0.0, 1.0])])
    assert result == pytest.approx([11 / 16, 11 / 16], abs=0.04)


def test_single_seeds_and_excluded_points_have_no_share() -> None:
    single = [("a", 1.0, [0.4]), ("b", 2.0, [0.9])]
    assert np.isnan(share(single)).all()
    points = handmade.points(SURE).assign(causal=[True, False, True])
    result = on_frontier(points, handmade.scores(SURE))
    assert np.isnan(result[1]) and result[2] == 1


def test_many_rows_at_once_equal_each_row_alone() -> None:
    rng = np.random.default_rng(0)
    xs, ys = rng.integers(1, 5, 8).astype(float), rng.integers(0, 4, (50, 8)) / 4
    each = [non_dominated(xs, row) for row in ys]
    slow = [
        [not any(xs[q] <= xs[p] and row[q] >= row[p] and (xs[q] < xs[p] or row[q] > row[p]) for q in range(8))
         for p in range(8)]
        for row in ys
    ]  # fmt: skip
    assert (non_dominated(xs, ys) == np.stack(each)).all() and (np.stack(each) == np.array(slow)).all()


def test_scores_in_one_row_are_drawn_together() -> None:
    drawn = resampled(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0), 100)
    assert drawn.sum(axis=1) == pytest.approx(1.0) and len(np.unique(drawn[:, 0])) == 3


def test_percentiles_ignore_nan() -> None:
    assert percentiles(np.array([np.nan, 1.0, 1.0])) == (1.0, 1.0)
    assert np.isnan(percentiles(np.array([np.nan]))).all()


def test_area_under_steps() -> None:
    """0 from 1/2 to 1, 0.1 from 1 to 2, 0.5 from 2 to 8; what lies below the frontier adds nothing."""
    result = area(*handmade.both(SURE), low=0.5, high=8).iloc[0]
    assert result["area"] == pytest.approx(0.1 + 2 * 0.5)
    assert result["mean_accuracy"] == pytest.approx(1.1 / 4)
    assert (result["area_low"], result["area_high"]) == pytest.approx((1.1, 1.1))


def test_area_between_narrower_limits() -> None:
    states, ys = np.array([4.0, 1.0, 2.0]), np.array([0.3, 0.1, 0.5])
    assert under(states, ys, 1.0, 2.0) == pytest.approx(0.1)
    assert under(states, ys, 2**1.5, 2**2.5) == pytest.approx(0.5)
    assert under(states, ys, 2**-3, 2**-1) == 0
    assert under(states, ys, 16.0, 64.0) == pytest.approx(1.0)


def test_area_of_each_series_and_its_interval() -> None:
    rows = [("a", 1.0, [0.0, 1.0]), ("b", 2.0, [0.5, 0.5])]
    result = area(*handmade.both(rows), low=1, high=4).set_index("series")
    assert result["area"].to_dict() == pytest.approx({"a": 1.0, "b": 0.5})
    assert result.loc["a", ["area_low", "area_high"]].tolist() == pytest.approx([0.0, 2.0])
    with pytest.raises(ValueError, match=r"low \(=4\) must be positive and below high \(=4\)"):
        area(*handmade.both(rows), low=4, high=4)
