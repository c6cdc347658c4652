"""Compute what a sum of outer products recalls: a yardstick for the frontier, not a bound on it."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

VALUE_DIM = 64  # of the value codes; with 128 the curve is up to 0.05 higher
_NOISE = np.linspace(-6, 6, 241)
_WEIGHT = np.exp(-(_NOISE**2) / 2) / np.exp(-(_NOISE**2) / 2).sum()
_COSINE = np.linspace(-1, 1, 4001)


def recalled(
    elements: ArrayLike, *, num_kv_pairs: int, num_values: int, value_dim: int = VALUE_DIM
) -> NDArray[np.float64]:
    """Accuracy of S = sum_i phi(k_i) v_i^T of so many elements, read with phi(k) and decoded by argmax.

    Unit features phi(k) and unit value codes v, random and independent; D pairs, m values.  What is read is
    r = v + n with n of variance D / elements in each direction; the right code scores <v, r> = 1 + s z, with
    s^2 = D / elements, each of the m - 1 others |r| times the cosine between random directions, and |r|^2 is
    1 + 2 s z + value_dim s^2.  Falls off around D = elements / (2 ln m); within 0.03 of simulation.
    """
    noise = np.sqrt(num_kv_pairs / np.asarray(elements, float))[..., None]
    length = np.sqrt(np.maximum(1 + 2 * noise * _NOISE + value_dim * noise**2, 1e-12))
    density = (1 - _COSINE**2) ** ((value_dim - 3) / 2)
    below = np.interp((1 + noise * _NOISE) / length, _COSINE, np.cumsum(density) / density.sum())
    return (below ** (num_values - 1)) @ _WEIGHT
