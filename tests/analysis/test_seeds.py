"""What few seeds say, and how sure it is."""

import numpy as np
import pytest

from analysis.statistics.seeds import BOOTSTRAP, NONE, RANGE, interval, solved, wilson


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
def test_few_seeds_cover_less_than_the_name_says(seeds: int, covered: float) -> None:
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


def test_a_seed_solves_from_the_threshold_on() -> None:
    share, low, high = solved(np.array([0.99, 0.9899, 1.0, 0.0]))
    assert share == 0.5 and low < 0.5 < high
    assert solved(np.array([0.5, 0.4]), threshold=0.5)[0] == 0.5
