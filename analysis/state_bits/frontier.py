"""Compare accuracy at equal bits of state with docs/bounds.md's bound, without assumed bits per scalar."""

import numpy as np
import pandas as pd

from ..statistics import bounds
from .answers import ABOUT, FORM, PREDICTED, lost, varying

GRID = np.geomspace(1, 2.0**27, 600)  # bits, where the bound is drawn
NEAR = 0.01  # of the accuracy in fp32: a form that loses no more counts as equally good


def points(answers: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each point, slice and form: the mean over seeds of its accuracy, its bits, and the
    limit of docs/bounds.md for so many bits (NaN where the task has none)."""
    answers = answers.loc[~answers["rounding"].isin(list(PREDICTED))]
    one = [name for name in ABOUT if name not in ("run_id", "seed", "lr")]
    by = ["slice", *one, "mixer", *FORM, *(name for name in answers if name.startswith("evaluation.zero"))]
    by = list(dict.fromkeys([*by, *varying(answers)]))
    means = answers.groupby(by, as_index=False, dropna=False).agg(
        bits=("bits", "max"),
        bits_per_scalar=("bits_per_scalar", "max"),
        accuracy=("accuracy", "mean"),
        least=("accuracy", "min"),
        most=("accuracy", "max"),
        seeds=("run_id", "nunique"),
        vocab_size=("vocab_size", "first"),
    )
    limits = [limit(*row) for row in means[["bits", "slice", "vocab_size"]].itertuples(index=False)]
    return means.assign(limit=limits).sort_values(["slice", "family", "series", "bits"], ignore_index=True)


def limit(bits: float, name: str, vocab_size: float) -> float:
    """Return the accuracy that no state of so many bits exceeds; NaN where nothing is known."""
    load = bounds.load_of(name, vocab_size)
    return float(bounds.most(bits, load)) if load else float("nan")


def violations(answers: pd.DataFrame) -> list[str]:
    """Return a line for each cell, slice and form that scores above what its bits can hold, beyond what its
    rows explain (Hoeffding, as in `analysis.statistics.bounds`).  Sound counting gives no line."""
    known = answers.loc[answers["vocab_size"].notna()]
    lines = []
    for row in known.to_dict("records"):
        most = limit(row["bits"], row["slice"], row["vocab_size"])
        if bounds.tail(row["accuracy"], most, row["rows"]) < bounds.ERROR_RATE / len(known):
            form = " ".join(str(row[name]) for name in FORM)
            lines.append(
                f"{row['run_id']} scores {row['accuracy']:.3f} on {row['slice']} in {row['bits']:,} bits "
                f"({form}), above {most:.3f}, the most that is possible: its bits are counted wrongly."
            )
    return lines


def enough(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the fewest bits per scalar that stay near fp32, for each point, slice, scale and rounding.

    What else is `varying` tells rows apart too.
    Near: the mean over seeds of the accuracy minus that in fp32 is at least -NEAR, at this width and at every
    larger one that was evaluated.  inf: at no width.  exact: the accuracy in fp32.
    """
    by = ["slice", "family", "series", "knobs", "scale", "rounding", *varying(answers)]
    rows = []
    for _, group in lost(answers).groupby(by, dropna=False):
        widths = group.groupby("format").agg(bits=("bits_per_scalar", "max"), lost=("lost", "mean"))
        widths = widths.sort_values("bits", ascending=False)
        near = widths["bits"].loc[(widths["lost"] <= NEAR).cummin()]
        fewest = near.min() if len(near) else np.inf
        about = group[by].iloc[0].to_dict()
        exact = group["accuracy_exact"].mean()
        rows.append(about | {"bits_per_scalar": fewest, "exact": exact, "seeds": group["run_id"].nunique()})
    return pd.DataFrame(rows)


def predicted(answers: pd.DataFrame) -> pd.DataFrame:
    """Return measured values with those predicted without a free parameter, means over seeds.

    Stochastic rounding is predicted by its noise, nearest by the threshold below which writes are lost.
    """
    keys = ["slice", "family", "series", "knobs", "format", "scale", "every", "rows"]
    keys = list(dict.fromkeys([*keys, *varying(answers)]))
    means = answers.groupby([*keys, "rounding"], as_index=False, dropna=False).agg(
        accuracy=("accuracy", "mean"), state_error=("state_error", "mean")
    )
    theory = means.loc[means["rounding"].isin(list(PREDICTED))]
    theory = theory.assign(rounding=[PREDICTED[name] for name in theory["rounding"]])
    return means.merge(theory, on=[*keys, "rounding"], suffixes=("", "_predicted"))
