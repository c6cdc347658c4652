"""Capacities and exponents of studies whose answer is known."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.capacity import capacities, crossing, fits, lines
from tests.analysis import study

LOADS = (4, 8, 16, 32, 64)
LOG = np.log2(LOADS[:4])


@pytest.mark.parametrize(
    ("accuracy", "pairs"),
    [
        ([1, 1, 0.8, 0], 2**3.5),  # half way from 8 to 16, over doublings
        ([1, 0.9, 0.8, 0.7], 8),  # recalled to the last: the next is missed
        ([1, 0.5, 1, 1], 2**2.2),  # the first fall counts
        ([0.89, 1, 1, 1], 0),
        ([1, 1, 1, 0.9], np.inf),
    ],
)
def test_capacity_is_interpolated_between_loads(accuracy: list[float], pairs: float) -> None:
    assert 2 ** crossing(LOG, np.array(accuracy), 0.9) == pytest.approx(pairs)


def test_a_single_load_gives_only_above_or_below() -> None:
    assert crossing(LOG[:1], np.array([[0.95], [0.5]]), 0.9).tolist() == [np.inf, -np.inf]


def curve(pairs: float, state: float) -> float:
    """Return an accuracy that falls with each doubling; 0.9 at 0.2 state^0.75 pairs."""
    return float(np.clip(0.9 - 0.09 * np.log2(pairs / (0.2 * state**0.75)), 0, 1))


STATES = (128, 256, 512, 1024)


def cell(state: int, seed: int, slices: list[tuple[int, int]]) -> dict:
    record = study.record("m", 0.0, seed=seed, state=state, slices=slices, d_state=state)
    for entry in record["slices"]:
        entry["accuracy"] = curve(entry["slice"]["num_kv_pairs"], state) + 0.01 * (seed - 1)
    return record


def of_one_cell(*loads: int) -> pd.DataFrame:
    slices = [(64, n) for n in loads]
    return study.table([cell(s, seed, slices) for s, seed in product(STATES, range(3))])


ONE_LOAD_A_RUN = [cell(s, seed, [(8 * n, n)]) for s, n, seed in product(STATES, LOADS, range(3))]


@pytest.mark.parametrize("table", [study.table(ONE_LOAD_A_RUN), of_one_cell(*LOADS)], ids=["runs", "slices"])
def test_the_fit_recovers_the_law_that_made_the_study(table: pd.DataFrame) -> None:
    result = capacities(table).set_index("state")
    assert len(result) == 4 and set(result["loads"]) == {5} and set(result["censored"]) == {""}
    assert result["pairs"].to_dict() == pytest.approx({s: 0.2 * s**0.75 for s in STATES}, rel=0.02)
    assert (result["low"] < result["pairs"]).all() and (result["pairs"] < result["high"]).all()
    law = fits(table).iloc[0]
    assert law["exponent"] == pytest.approx(0.75, abs=0.02) and law["factor"] == pytest.approx(0.2, rel=0.1)
    assert law["low"] < law["exponent"] < law["high"] and law["states"] == 4 and law["drawn"] == 1
    squared = table.assign(state_mixer_paper=table["state_resident"] ** 2)
    assert fits(squared, of_state="state_mixer_paper")["exponent"].iloc[0] == pytest.approx(
        law["exponent"] / 2
    )


def test_capacities_outside_the_loads_are_censored() -> None:
    result = capacities(of_one_cell(8, 16)).set_index("state")
    assert result["censored"].to_dict() == {128: "below", 256: "", 512: "above", 1024: "above"}
    assert result["pairs"].isna().to_dict() == {128: True, 256: False, 512: True, 1024: True}
    assert result.loc[1024, "high"] == np.inf and result.loc[128, "low"] == 0
    law = fits(of_one_cell(8, 16)).iloc[0]
    assert np.isnan(law["exponent"]) and law["censored"] == 3 and law["states"] == 1


def cache(pairs: int, accuracy: float, heads: int = 1) -> dict:
    """Return a cell whose state grows with the load: 10 scalars for each pair and head."""
    return study.record("m", accuracy, state=10 * heads * pairs, slices=[(8 * pairs, pairs)], heads=heads)


def test_a_growing_state_is_interpolated_at_the_capacity() -> None:
    """A cache of 10 n scalars that recalls 16 pairs but not 32: 0.9 half way between."""
    scored = {4: 1.0, 8: 1.0, 16: 1.0, 32: 0.8}
    result = capacities(study.table([cache(*cell) for cell in scored.items()])).iloc[0]
    assert result["pairs"] == pytest.approx(2**4.5) and result["state"] == pytest.approx(10 * 2**4.5)
    assert np.isnan(result["low"]) and result["seeds"] == 1


def test_a_fit_takes_each_growing_state_at_its_capacity() -> None:
    """Caches of 10 c n scalars that recall 8 c pairs, and miss 16 c: pairs grow as the square root."""
    rows = [cache(n, 1.0 if n <= 8 * c else 0.8, c) for c, n in product((1, 2, 4), LOADS)]
    law = fits(study.table(rows)).iloc[0]
    assert law["exponent"] == pytest.approx(0.5) and law["states"] == 3


def test_a_line_needs_three_distinct_places() -> None:
    xs = np.array([[0.0, 1, 2, 2], [0, 1, 1, 1], [0, 1, 2, 3]])
    ys = np.array([[1.0, 3, 5, 5], [1, 3, 3, 3], [np.inf, 3, 5, -np.inf]])
    slopes, starts = lines(xs, ys)
    assert slopes[0] == pytest.approx(2) and starts[0] == pytest.approx(1)
    assert np.isnan(slopes[1:]).all()
    assert np.isnan(lines(xs[0] / 4, ys)[0]).all(), "three places within half an octave"


def test_mixers_with_memory_beyond_their_state_have_no_capacity() -> None:
    assert capacities(of_one_cell(*LOADS).assign(causal=False)).empty


def test_a_study_without_pairs_is_refused() -> None:
    table = of_one_cell(*LOADS).drop(columns="num_kv_pairs")
    with pytest.raises(ValueError, match="Task mqar has no axis of load"):
        capacities(table)
