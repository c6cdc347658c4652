"""The bound is never below what the best encoder and decoder reach, and not far above them."""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from analysis.bounds import highest_accuracy


def best_code(pairs: int, values: int, states: int) -> float:
    """The highest accuracy that so many states allow: every set of decoders, each row to its best one.

    The decoder knows the keys, so keys are left out; a state is then what is answered for each of them.
    """
    rows = np.array(list(permutations(range(values), pairs)))
    answers = np.array(list(product(range(values), repeat=pairs)))
    right = (rows[:, None, :] == answers).mean(axis=2)  # [rows, decoders]
    sets = combinations(range(len(answers)), min(states, len(answers)))
    return max(float(right[:, list(chosen)].max(axis=1).mean()) for chosen in sets)


CODES = [(1, 2, 1), (1, 3, 2), (1, 4, 1), (1, 4, 2), (1, 4, 3), (1, 4, 4), (2, 2, 1), (2, 3, 2), (2, 3, 4)]
CODES += [(2, 4, 1), (2, 4, 2), (2, 4, 3), (2, 4, 4), (2, 5, 3), (3, 3, 2), (3, 3, 3), (3, 4, 2)]


@pytest.mark.parametrize(("pairs", "values", "states"), CODES)
def test_no_code_beats_the_bound(pairs: int, values: int, states: int) -> None:
    most = highest_accuracy(np.log2(states), num_kv_pairs=pairs, num_values=values)
    assert best_code(pairs, values, states) <= most + 1e-9
