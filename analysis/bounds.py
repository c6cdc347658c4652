"""What no model can do: accuracy on MQAR against bits of state, and against what lies in view.

Derivations, assumptions and what they leave out: docs/bounds.md.  The bounds hold for a task whose slices say
num_kv_pairs and seq_len and whose record says task.vocab_size; elsewhere there is no bound, and no error.
"""

import re

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.outer_product import recalled

Floats = NDArray[np.float64]
BITS = {32: "no model: 32 bits a scalar", 16: "no model: 16 bits a scalar", 1: "no model: 1 bit a scalar"}
HEURISTIC = "capacity of an outer-product memory"
LABELS = (*BITS.values(), HEURISTIC)
COVERAGE = "coverage and the best guess"
BITS_OF_A_SCALAR = 32  # the most that is kept; with it a point above the bound is an error
BITS_OF_AN_INT = 32
ERROR_RATE = 1e-3  # that violations() reports anything at all by chance
VOCAB_SIZE = "task.vocab_size"


def highest_accuracy(bits: ArrayLike, *, num_kv_pairs: int, num_values: int) -> Floats:
    """The expected accuracy that no state of so many bits exceeds when each key is asked for once.

    1 - the smallest delta in [0, 1 - 1/m] with D (h2(delta) + delta log2(m - 1)) >= B - bits, where D is
    num_kv_pairs, m num_values and B = log2(m! / (m - D)!) the bits of the values; 1 from B bits on.
    """
    _check(num_kv_pairs, num_values)
    missing = (_bits_of_values(num_kv_pairs, num_values) - np.asarray(bits, float)) / num_kv_pairs
    low, high = np.zeros_like(missing), np.full_like(missing, 1 - 1 / num_values)
    for _ in range(60):  # the left side grows with delta
        middle = (low + high) / 2
        enough = _fano(middle, num_values) >= missing
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(missing <= 0, 1.0, 1 - high)


def recall_bits(accuracy: ArrayLike, *, num_kv_pairs: int, num_values: int) -> Floats:
    """The least information about the values, in bits, with which this accuracy can be had."""
    _check(num_kv_pairs, num_values)
    delta = np.minimum(1 - np.asarray(accuracy, float), 1 - 1 / num_values)
    needed = _bits_of_values(num_kv_pairs, num_values) - num_kv_pairs * _fano(delta, num_values)
    return np.maximum(0.0, needed)


def num_values(seq_len: int, num_kv_pairs: int, vocab_size: int) -> int:
    """Values that an answer may have, for one who has read all filler of a row.

    Half of the vocabulary are values.  Filler that avoids the row's own values gives away what they are not,
    so all that can be given away is taken off: filler of one pass and with no token twice.
    """
    values = vocab_size - vocab_size // 2
    return values - min(max(seq_len - 3 * num_kv_pairs, 0), values - num_kv_pairs)


def curves(slices: list[str], vocab_size: float | None, states: ArrayLike) -> pd.DataFrame:
    """The bounds to draw: state (scalars), accuracy (mean over the slices) and bound, one of LABELS.

    The last, HEURISTIC, is no bound.  Empty where a slice has no num_kv_pairs or seq_len, or no vocab_size.
    """
    states = np.asarray(states, float)
    loads = [_load(name) for name in slices]
    if vocab_size is None or not np.isfinite(vocab_size) or not loads or None in loads:
        return pd.DataFrame({"state": [], "accuracy": [], "bound": []})
    known = [load for load in loads if load]
    lines = {label: _mean(known, int(vocab_size), bits * states) for bits, label in BITS.items()}
    values = int(vocab_size) - int(vocab_size) // 2
    lines[HEURISTIC] = np.mean(
        [recalled(states, num_kv_pairs=pairs, num_values=values) for _, pairs in known], axis=0
    )
    frames = [pd.DataFrame({"state": states, "accuracy": y, "bound": name}) for name, y in lines.items()]
    return pd.concat(frames, ignore_index=True)


def ceiling(coverage: float, *, seq_len: int, num_kv_pairs: int, vocab_size: int) -> float:
    """The accuracy that no model exceeds of which only this share of the values lies in view.

    A value out of view is guessed by one who knows all other values of the row and all filler.
    """
    return coverage + (1 - coverage) * best_guess(seq_len, num_kv_pairs, vocab_size)


def best_guess(seq_len: int, num_kv_pairs: int, vocab_size: int) -> float:
    """E[1 / (m - D + 1 - U)]: U of the m - D values that are not the row's stand in its filler."""
    others = vocab_size - vocab_size // 2 - num_kv_pairs
    if others < 0:
        raise ValueError(f"vocab_size (={vocab_size}) has fewer values than num_kv_pairs (={num_kv_pairs}).")
    found = np.eye(1, others + 1)[0]  # [u]: the probability that u of them have been seen
    new = (others - np.arange(others + 1)) / max(1, vocab_size - 2 * num_kv_pairs)
    for _ in range(max(seq_len - 3 * num_kv_pairs, 0)):
        found = found * (1 - new) + np.append(0, (found * new)[:-1])
    return float((found / (others + 1 - np.arange(others + 1))).sum())


def violations(table: pd.DataFrame) -> pd.DataFrame:
    """The cells that score above what is possible, beyond what their sample of rows explains.

    One row a cell and slice of the test split: run_id, mixer, slice, accuracy, limit, bound (BITS[32] or
    COVERAGE), p.  p is Hoeffding's: the most probable that so many independent rows, whatever the dependence
    within a row, score so far above the limit; reported below ERROR_RATE over the number of comparisons.
    An empty frame is what a sound implementation gives.  table: of `zoo.results.load`.
    """
    rows = _bounded(table.loc[(table["split"] == "test") & table["accuracy"].notna()])
    limits = [limit for row in rows.to_dict("records") for limit in _limits(row)]
    found = pd.DataFrame(limits, columns=["run_id", "mixer", "slice", "accuracy", "limit", "bound", "p"])
    return found.loc[found["p"] < ERROR_RATE / max(1, len(found))].reset_index(drop=True)


def in_words(found: pd.DataFrame) -> list[str]:
    """One line for each row of `violations`."""
    return [
        f"{row['run_id']} scores {row['accuracy']:.3f} on {row['slice']}, above {row['limit']:.3f}, the most "
        f"that is possible ({row['bound']}): its count of the state, its view or its data is wrong."
        for row in found.to_dict("records")
    ]


def recall(table: pd.DataFrame) -> pd.DataFrame:
    """The table with recall_bits (`recall_bits` of each row) and bits_per_scalar, these per resident scalar.

    NaN where the task has no bound or the cell diverged.  table: of `zoo.results.load`, or points of single
    slices with the columns slice and task.vocab_size.
    """
    rows = _bounded(table)
    found = [
        float(recall_bits(row["accuracy"], num_kv_pairs=row["pairs"], num_values=row["values"]))
        for row in rows.to_dict("records")
    ]
    bits = pd.Series(found, index=rows.index, dtype=float).reindex(table.index)
    return table.assign(recall_bits=bits, bits_per_scalar=bits / table["state_resident"])


def _bounded(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose task has a bound, with length, pairs, values and vocab_size as whole numbers."""
    if VOCAB_SIZE not in table:
        return table.iloc[:0].assign(length=0, pairs=0, values=0, vocab_size=0)
    loads = {str(name): load for name in table["slice"].unique() if (load := _load(name))}
    known = table.loc[table["slice"].isin(list(loads)) & table[VOCAB_SIZE].notna()]
    of = [(loads[row["slice"]], int(row[VOCAB_SIZE])) for row in known.to_dict("records")]
    length, pairs = ([load[i] for load, _ in of] for i in (0, 1))
    sizes = [vocab_size for _, vocab_size in of]
    values = [num_values(*load, vocab_size) for load, vocab_size in of]
    return known.assign(length=length, pairs=pairs, values=values, vocab_size=sizes)


def _limits(row: dict) -> list[tuple]:
    limits = []
    if row["causal"] and row["exact_decode"]:
        bits = BITS_OF_A_SCALAR * row["state_resident"] + BITS_OF_AN_INT * row["state_aux_ints"]
        most = highest_accuracy(bits, num_kv_pairs=row["pairs"], num_values=row["values"])
        limits.append((float(most), BITS[BITS_OF_A_SCALAR]))
    if row["coverage"] < 1:
        load = {"seq_len": row["length"], "num_kv_pairs": row["pairs"], "vocab_size": row["vocab_size"]}
        limits.append((ceiling(row["coverage"], **load), COVERAGE))
    cell = (row["run_id"], row["mixer"], row["slice"], row["accuracy"])
    return [(*cell, limit, bound, _tail(row["accuracy"], limit, row["rows"])) for limit, bound in limits]


def _tail(mean: float, limit: float, rows: int) -> float:
    """Hoeffding 1963, theorem 1: P(mean of `rows` independent numbers in [0, 1] >= mean), expected: limit."""
    if mean <= limit:
        return 1.0
    divergence = mean * np.log(mean / limit)
    divergence += (1 - mean) * np.log((1 - mean) / (1 - limit)) if mean < 1 else 0.0
    return float(np.exp(-rows * divergence))


def _mean(loads: list[tuple[int, int]], vocab_size: int, bits: Floats) -> Floats:
    alone = [
        highest_accuracy(bits, num_kv_pairs=pairs, num_values=num_values(length, pairs, vocab_size))
        for length, pairs in loads
    ]
    return np.mean(alone, axis=0)


def _load(slice_: str) -> tuple[int, int] | None:
    """(seq_len, num_kv_pairs) of a slice's name, or None."""
    fields = dict(re.findall(r"(\w+)=(\d+)", slice_))
    if "seq_len" not in fields or "num_kv_pairs" not in fields:
        return None
    return int(fields["seq_len"]), int(fields["num_kv_pairs"])


def _bits_of_values(num_kv_pairs: int, num_values: int) -> float:
    return float(np.log2(np.arange(num_values - num_kv_pairs + 1, num_values + 1)).sum())


def _fano(delta: ArrayLike, num_values: int) -> Floats:
    """h2(delta) + delta log2(m - 1): the most entropy that an error rate of delta leaves in one value."""
    delta = np.asarray(delta, float)
    inside = np.clip(delta, 1e-300, 1 - 1e-16)
    entropy = -inside * np.log2(inside) - (1 - inside) * np.log2(1 - inside)
    return np.where(delta > 0, entropy, 0.0) + delta * np.log2(max(1, num_values - 1))


def _check(num_kv_pairs: int, num_values: int) -> None:
    if not 1 <= num_kv_pairs <= num_values:
        raise ValueError(
            f"num_kv_pairs (={num_kv_pairs}) must be at least 1 and at most the number of values "
            f"(={num_values}), which are distinct."
        )
