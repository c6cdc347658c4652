"""Bound the accuracy of any model on MQAR, by its bits of state and by the share of answers in its view.

Derivations, assumptions and limits: docs/bounds.md.  The bounds hold for a task whose slices name
num_kv_pairs and seq_len and whose record has task.vocab_size; elsewhere there is no bound, and no error.
"""

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from .frontier import decodable

Floats = NDArray[np.float64]
BITS = {32: "no model: 32 bits a scalar", 16: "no model: 16 bits a scalar", 1: "no model: 1 bit a scalar"}
HEURISTIC = "capacity of an outer-product memory"
LABELS = (*BITS.values(), HEURISTIC)
VOCAB_SIZE, TASK_CLASS = "task.vocab_size", "task.class"
COVERAGE = "coverage and the best guess"
NEEDED = [
    "run_id", "mixer", "slice", "accuracy", "rows", "coverage", "state_resident", "state_aux_ints", "causal",
    "exact_decode", VOCAB_SIZE, TASK_CLASS,
]  # fmt: skip
OF_MQAR = ("zoo.tasks.mqar.MQAR", "zoo.tasks.mqar.MQAR.one_load", "zoo.tasks.mqar_reference.ReferenceMQAR")
VIOLATION = ["run_id", "mixer", "slice", "accuracy", "limit", "bound", "p"]
BITS_OF_A_SCALAR = 32  # the most bits that are kept of a scalar, so that a point above the bound is an error
BITS_OF_AN_INT = 32
ERROR_RATE = 1e-3  # the probability that violations() reports anything by chance
ALPHABETS = 16  # the most alphabet sizes that a bound is averaged over
VALUE_DIM = 64  # channels of the value codes; with 32 the curve is up to 0.16 higher where states are small
SURE = 2000  # elements a pair from which a sum of outer products recalls all, to the last digit
_NOISE = np.linspace(-5, 5, 41)
_WEIGHT = np.exp(-(_NOISE**2) / 2) / np.exp(-(_NOISE**2) / 2).sum()
_ANGLE = (np.arange(200) + 0.5) * np.pi / 200


class Load(NamedTuple):
    """The load of a slice of MQAR; half of its vocabulary are values."""

    seq_len: int
    num_kv_pairs: int
    vocab_size: int


def highest_accuracy(bits: ArrayLike, *, num_kv_pairs: int, num_values: ArrayLike) -> Floats:
    """Return the expected accuracy that no state of so many bits exceeds, if each key is asked for once.

    1 - the smallest delta in [0, 1 - 1/m] with D (h2(delta) + delta log2(m - 1)) >= B - bits, where D is
    num_kv_pairs, m num_values and B = log2(m! / (m - D)!) the bits of the values; 1 from B bits on.
    bits and num_values broadcast.
    """
    sizes = np.asarray(num_values, int)
    missing = (_bits_of_values(num_kv_pairs, sizes) - np.asarray(bits, float)) / num_kv_pairs
    if (missing <= 0).all():
        return np.ones(missing.shape)
    low, high = np.zeros(missing.shape), np.broadcast_to(1 - 1 / sizes, missing.shape)
    for _ in range(40):  # the left side grows with delta
        middle = (low + high) / 2
        enough = _fano(middle, sizes) >= missing
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(missing <= 0, 1.0, 1 - high)


def most(bits: ArrayLike, load: Load) -> Floats:
    """Return `highest_accuracy` where filler avoids the row's values, which rules out other values."""
    sizes, weights = alphabets(load)
    each = highest_accuracy(
        np.asarray(bits, float)[..., None], num_kv_pairs=load.num_kv_pairs, num_values=sizes
    )
    return each @ weights


def least_bits(accuracy: ArrayLike, load: Load) -> Floats:
    """Return the least bits of state that allow this accuracy: the inverse of `most`."""
    accuracy = np.asarray(accuracy, float)
    low = np.zeros(accuracy.shape)
    high = np.full(accuracy.shape, _bits_of_values(load.num_kv_pairs, alphabets(load)[0]).max())
    for _ in range(40):
        middle = (low + high) / 2
        enough = most(middle, load) >= accuracy
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(accuracy <= most(0, load), 0.0, high)


@cache
def alphabets(load: Load) -> tuple[NDArray[np.int64], Floats]:
    """Return the numbers of values that a row's filler leaves possible as answers, with their probabilities.

    The numbers fall; at most ALPHABETS of them.  The filler is that of one pass: draws from the tokens that
    are neither key nor value of the row.
    """
    values = load.vocab_size - load.vocab_size // 2
    others, outside = values - load.num_kv_pairs, load.vocab_size - 2 * load.num_kv_pairs
    if others < 0:
        raise ValueError(
            f"task.vocab_size (={load.vocab_size}) has {values} values, too few for "
            f"num_kv_pairs (={load.num_kv_pairs}); use at least {2 * load.num_kv_pairs}."
        )
    counts = np.arange(others + 1)
    chances = np.eye(1, others + 1)[0]  # [u]: the probability that u of the others are in the filler
    for _ in range(max(load.seq_len - 3 * load.num_kv_pairs, 0)):
        new = chances * (others - counts) / max(1, outside)
        chances = chances - new + np.append(0, new[:-1])
    likely = chances > 1e-12
    return _merged(values - counts[likely], chances[likely] / chances[likely].sum())


def curves(slices: list[str], vocab_size: float | None, states: ArrayLike) -> pd.DataFrame:
    """Return the bounds to draw: state (scalars), accuracy (mean over the slices) and bound, one of LABELS.

    HEURISTIC, the last, is no bound.  Empty if a slice has no num_kv_pairs or seq_len, or without vocab_size.
    """
    states = np.asarray(states, float)
    loads = [load_of(name, vocab_size) for name in slices]
    known = [load for load in loads if load]
    if not loads or len(known) < len(loads):
        return pd.DataFrame({"state": [], "accuracy": [], "bound": []})
    lines = {label: [most(bits * states, load) for load in known] for bits, label in BITS.items()}
    lines[HEURISTIC] = [
        recalled(states, num_kv_pairs=load.num_kv_pairs, num_values=load.vocab_size - load.vocab_size // 2)
        for load in known
    ]
    frames = [
        pd.DataFrame({"state": states, "accuracy": np.mean(alone, axis=0), "bound": label})
        for label, alone in lines.items()
    ]
    return pd.concat(frames, ignore_index=True)


def recalled(
    elements: ArrayLike, *, num_kv_pairs: int, num_values: int, value_dim: int = VALUE_DIM
) -> Floats:
    """Return the accuracy of S = sum_i phi(k_i) v_i^T of so many elements, read with phi(k) and decoded by
    argmax: a yardstick for the frontier, not a bound on it.

    Unit features phi(k) of C channels and unit value codes of value_dim, random and independent; D pairs,
    m values.  What is read is r = v + sum_j s_j v_j, s_j the cosine between two features: the right code has
    1 + n, each of the D - 1 others of the row s (1 - c) + c + n', each of the m - D elsewhere |r| times a
    cosine c.  Up to 0.04 below simulation (docs/bounds.md); a guess below one channel.
    """
    given = np.asarray(elements, float)
    result = np.where(given < value_dim, 1 / num_values, 1.0)
    between_ends = (given >= value_dim) & (given < SURE * num_kv_pairs)
    channels = given[between_ends][:, None, None] / value_dim
    spread = np.sqrt((num_kv_pairs - 1) / (channels * value_dim))  # of n
    right = 1 + spread * _NOISE[:, None]
    length = np.sqrt(np.maximum(2 * right - 1 + value_dim * spread**2, 1e-12))
    cosines = np.cos(_ANGLE)
    codes = _density(value_dim)  # the same from either end
    between = np.interp(right / length, cosines[::-1], np.cumsum(codes) - codes / 2)
    behind = ndtr((right - cosines) / np.hypot((1 - cosines) / np.sqrt(value_dim), spread))
    in_row = (_density(channels) * behind).sum(axis=-1)
    right_most = in_row ** (num_kv_pairs - 1) * between[..., 0] ** (num_values - num_kv_pairs)
    result[between_ends] = right_most @ _WEIGHT
    return result


def _density(channels: ArrayLike) -> Floats:
    """Return the probability of each of the angles between random directions in so many channels."""
    density = np.sin(_ANGLE) ** (np.asarray(channels) - 2)
    return density / density.sum(axis=-1, keepdims=True)


def ceiling(coverage: ArrayLike, load: Load) -> Floats:
    """Return the accuracy that no model exceeds if only this share of the values is in its view.

    A value out of view is guessed, here with knowledge of all other values of the row and of all its filler.
    """
    sizes, weights = alphabets(load)
    guess = float(weights @ (1 / (sizes - load.num_kv_pairs + 1)))
    coverage = np.asarray(coverage, float)
    return coverage + (1 - coverage) * guess


def violations(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that score above what is possible, beyond what their sample of rows explains.

    One row per cell and slice of the test split: run_id, mixer, slice, accuracy, limit, bound (BITS[32] or
    COVERAGE), p.  p is Hoeffding's upper bound on the probability that so many independent rows, whatever the
    dependence within a row, score so far above the limit; a row is reported if p is below ERROR_RATE over the
    number of comparisons.  A sound implementation gives an empty frame.  table: of `zoo.results.load`.
    """
    rows = table.loc[
        (table["split"] == "test") & table["accuracy"].notna(), [c for c in NEEDED if c in table]
    ]
    of_load = [(rows.loc[which], load) for load, which in loads(rows).items()]
    compared = [limits(part, load) for part, load in of_load for limits in (_by_bits, _by_view)]
    above = pd.concat(compared) if compared else rows.iloc[:0].assign(limit=0.0, bound="")
    above["p"] = [tail(*row) for row in above[["accuracy", "limit", "rows"]].itertuples(index=False)]
    above = above.loc[above["p"] < ERROR_RATE / max(1, len(above)), VIOLATION]
    return above.sort_values(["run_id", "slice"], ignore_index=True)


def in_words(above: pd.DataFrame) -> list[str]:
    """Return a line for each row of `violations`."""
    return [
        f"{row['run_id']} scores {row['accuracy']:.3f} on {row['slice']}, above {row['limit']:.3f}, the most "
        f"that is possible ({row['bound']}): its count of the state, its view or its data is wrong."
        for row in above.to_dict("records")
    ]


def recall(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with recall_bits (`least_bits` of the accuracy) and bits_per_scalar (resident state).

    They are NaN where the task has no bound or the cell diverged.  table: of `zoo.results.load`, or points of
    single slices with a column task.vocab_size.
    """
    bits = pd.Series(np.nan, index=table.index)
    for load, which in loads(table).items():
        rows = which & table["accuracy"].notna()
        bits[rows] = least_bits(table.loc[rows, "accuracy"].to_numpy(float), load)
    return table.assign(recall_bits=bits, bits_per_scalar=bits / table["state_resident"])


def of_mqar(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with task.vocab_size only for MQAR, since the bounds do not hold for other tasks."""
    if VOCAB_SIZE not in table or TASK_CLASS not in table:
        return table
    others = [not (pd.isna(name) or name in OF_MQAR) for name in table[TASK_CLASS]]
    return table.assign(**{VOCAB_SIZE: table[VOCAB_SIZE].mask(others)}) if any(others) else table


def loads(table: pd.DataFrame) -> dict[Load, pd.Series]:
    """Return load -> mask of its rows, by slice and task.vocab_size; rows without these have no load."""
    table = of_mqar(table)
    if VOCAB_SIZE not in table:
        return {}
    asked = zip(table["slice"], table[VOCAB_SIZE].astype(float), strict=True)
    kinds = {kind: load_of(*kind) for kind in asked}
    return {
        load: (table["slice"] == name) & (table[VOCAB_SIZE] == vocab_size)
        for (name, vocab_size), load in kinds.items()
        if load
    }


def _by_bits(rows: pd.DataFrame, load: Load) -> pd.DataFrame:
    rows = rows.loc[decodable(rows)]
    bits = BITS_OF_A_SCALAR * rows["state_resident"] + BITS_OF_AN_INT * rows["state_aux_ints"]
    return rows.assign(limit=most(bits.to_numpy(float), load), bound=BITS[BITS_OF_A_SCALAR])


def _by_view(rows: pd.DataFrame, load: Load) -> pd.DataFrame:
    rows = rows.loc[rows["coverage"] < 1]
    return rows.assign(limit=ceiling(rows["coverage"].to_numpy(float), load), bound=COVERAGE)


def tail(mean: float, limit: float, rows: float) -> float:
    """Bound P(mean of `rows` independent numbers in [0, 1] >= mean) if `limit` is expected: Hoeffding 1963,
    theorem 1."""
    if mean <= limit:
        return 1.0
    divergence = mean * np.log(mean / limit)
    divergence += (1 - mean) * np.log((1 - mean) / (1 - limit)) if mean < 1 else 0.0
    return float(np.exp(-rows * divergence))


def load_of(slice_: str, vocab_size: float | None) -> Load | None:
    fields = dict(re.findall(r"(\w+)=(\d+)", slice_))
    if "seq_len" not in fields or "num_kv_pairs" not in fields:
        return None
    if vocab_size is None or not np.isfinite(vocab_size):
        return None
    return Load(int(fields["seq_len"]), int(fields["num_kv_pairs"]), int(vocab_size))


def _merged(sizes: NDArray[np.int64], weights: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Merge many falling sizes into a few; each stands for larger ones before it, whose bound is lower."""
    groups = np.array_split(np.arange(len(sizes)), min(len(sizes), ALPHABETS))
    return np.array([sizes[g[-1]] for g in groups]), np.array([weights[g].sum() for g in groups])


def _bits_of_values(num_kv_pairs: int, num_values: NDArray[np.int64]) -> Floats:
    if not 1 <= num_kv_pairs <= num_values.min():
        raise ValueError(
            f"num_kv_pairs (={num_kv_pairs}) must be at least 1 and at most the number of values "
            f"(={num_values.min()}), which are distinct."
        )
    return np.log2(num_values[..., None] - np.arange(num_kv_pairs)).sum(axis=-1)


def _fano(delta: Floats, num_values: NDArray[np.int64]) -> Floats:
    """Return h2(delta) + delta log2(m - 1), the most entropy of one value at an error rate of delta."""
    inside = np.clip(delta, 1e-300, 1 - 1e-16)
    entropy = -inside * np.log2(inside) - (1 - inside) * np.log2(1 - inside)
    return entropy + delta * np.log2(np.maximum(1, num_values - 1))
