"""Explain the cost of rounding by update rule, scale, rounding and length: the variance of each factor."""

from itertools import combinations

import numpy as np
import pandas as pd

from .answers import EXACT, lost

FACTORS = ("series", "scale", "rounding", "slice")
LEARNED = 0.5  # accuracy in fp32 at the easiest slice; a cell below has not learned, and has nothing to lose


def explained(answers: pd.DataFrame) -> pd.DataFrame:
    """Return, for each format, the share of the variance of the loss that each factor and each pair explains.

    The loss is the accuracy in fp32 minus that of the form, its mean over seeds, for every combination of
    FACTORS; the shares are those of an analysis of variance of the complete table (the sum over a format is
    1; "the rest" is the joint effect of three and four factors).  Cells that did not learn are left out, and
    so is a mixer of which no cell learned.  ValueError: some combinations were not evaluated.
    """
    # the mean loss over seeds of every format and combination of FACTORS, of cells that learned
    best = answers.loc[answers["format"] == EXACT].groupby("run_id")["accuracy"].max()
    losses = lost(answers)
    losses = losses.loc[losses["run_id"].isin(best.index[best >= LEARNED])]
    means = losses.groupby(["format", *FACTORS], as_index=False, sort=False)["lost"].mean()
    rows = [
        {"format": name, "largest": part["lost"].max(), "mean": part["lost"].mean()} | _shares(part)
        for name, part in means.groupby("format", sort=False)
    ]
    return pd.DataFrame(rows)


def _shares(part: pd.DataFrame) -> dict[str, float]:
    """Split the variance over the complete table into those of factors and of pairs of them."""
    levels = [part[name].unique() for name in FACTORS]
    every = pd.MultiIndex.from_product(levels, names=FACTORS)
    loss = part.set_index(list(FACTORS))["lost"].reindex(every).to_numpy(float)
    if np.isnan(loss).any():
        form = part["format"].iloc[0]
        raise ValueError(f"{form} lacks answers for some of {', '.join(FACTORS)}: ask for all at once.")
    centred = (loss - loss.mean()).reshape([len(names) for names in levels])
    total = float((centred**2).mean()) or 1.0
    axes = range(len(FACTORS))
    alone = [_explained(centred, (axis,)) / total for axis in axes]
    pairs = {
        (a, b): _explained(centred, (a, b)) / total - alone[a] - alone[b] for a, b in combinations(axes, 2)
    }
    shares = {FACTORS[axis]: alone[axis] for axis in axes}
    shares |= {f"{FACTORS[a]} x {FACTORS[b]}": share for (a, b), share in pairs.items()}
    return shares | {"the rest": 1 - sum(shares.values())}


def _explained(centred: np.ndarray, axes: tuple[int, ...]) -> float:
    """Return the variance of the means over all other axes."""
    others = tuple(axis for axis in range(centred.ndim) if axis not in axes)
    return float((centred.mean(axis=others) ** 2).mean())
