"""Simulate the recall of a sum of outer products without any training: S = sum_i k_i v_i^T.

The K keys of a task lie as far apart as K directions of C channels can (a unit-norm tight frame, which meets
Welch's bound, doi 10.1109/TIT.1974.1055219), or have no sign: some channels of each key are equal, the others
0.  The codes of its m values are random directions of V channels.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def recalled(
    loads: list[int],
    *,
    keys: int,
    values: int,
    key_dim: int,
    value_dim: int,
    ones: int = 0,
    rows: int = 100,
    rng: np.random.Generator,
) -> float:
    """Return the mean over loads (pairs per row) of the share of reads whose nearest code is the answer's.

    ones: how many channels of a key are not 0, for keys without a sign; 0: keys of a tight frame.
    """
    frame = sparse_code(keys, key_dim, ones, rng) if ones else tight_frame(keys, key_dim, rng)
    return float(np.mean([_row(load, frame, values, value_dim, rng) for load in loads for _ in range(rows)]))


def tight_frame(count: int, width: int, rng: np.random.Generator) -> Floats:
    """Return unit vectors (count, width) whose mean squared products are as small as they can be."""
    frame = rng.normal(size=(count, width))
    for _ in range(100):  # alternate between equal singular values and unit rows
        left, _, right = np.linalg.svd(frame, full_matrices=False)
        frame = left @ right
        frame /= np.linalg.norm(frame, axis=1, keepdims=True)
    return frame


def sparse_code(count: int, width: int, ones: int, rng: np.random.Generator) -> Floats:
    """Return unit vectors (count, width), each of `ones` equal channels, drawn at random."""
    code = rng.random((count, width)).argsort(axis=1) < ones
    return code / np.sqrt(ones)


def _row(pairs: int, frame: Floats, values: int, value_dim: int, rng: np.random.Generator) -> float:
    codes = rng.normal(size=(values, value_dim))
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    keys, answers = frame[rng.choice(len(frame), pairs, False)], rng.choice(values, pairs, False)
    read = keys @ (keys.T @ codes[answers])
    return float(((read @ codes.T).argmax(1) == answers).mean())
