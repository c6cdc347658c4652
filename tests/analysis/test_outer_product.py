"""The capacity curve against the memory that it describes."""

import numpy as np
import pytest

from analysis.statistics.outer_product import recalled

FEATURES, VALUES, CODES = 64, 64, 4096
ELEMENTS = FEATURES * VALUES
CAPACITY = ELEMENTS / (2 * np.log(CODES))


def unit(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    drawn = rng.normal(size=(rows, width))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def simulated(pairs: int, rng: np.random.Generator) -> float:
    keys, codes = unit(rng, pairs, FEATURES), unit(rng, CODES, VALUES)
    values = rng.choice(CODES, pairs, replace=False)
    memory = keys.T @ codes[values]
    return float((((keys @ memory) @ codes.T).argmax(axis=1) == values).mean())


@pytest.mark.parametrize(
    ("load", "elsewhere"), [(0.25, 1.00), (0.5, 0.96), (0.75, 0.785), (1, 0.595), (1.5, 0.325), (2, 0.195)]
)
def test_the_curve_is_what_a_memory_of_random_features_recalls(load: float, elsewhere: float) -> None:
    rng = np.random.default_rng(0)
    pairs = round(load * CAPACITY)
    found = np.mean([simulated(pairs, rng) for _ in range(4)])
    assert found == pytest.approx(elsewhere, abs=0.04)
    assert recalled(ELEMENTS, num_kv_pairs=pairs, num_values=CODES) == pytest.approx(found, abs=0.04)


def test_a_pair_takes_two_ln_m_elements() -> None:
    few, many = recalled([33 * 256, 8 * 256], num_kv_pairs=256, num_values=CODES)
    assert few > 0.95 and many < 0.25
