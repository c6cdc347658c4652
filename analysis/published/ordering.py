"""Compare published results with ours by which mixer is better, where the accuracies cannot be compared.

*A leads B* by the mean difference of their accuracies, A minus B, over the budgets that both can have.  A
budget is a value x (scalars of state, or a width); a mixer's accuracy within it is that of its point of at
most x with the best mean over seeds; the lead is a mean over log x, from the larger of the two smallest
points to the largest.
"""

from itertools import combinations

import numpy as np
import pandas as pd

from ..records.where import where
from . import read

LEAST = 0.02  # a lead below this is too small to be read off a figure, or to count
AGREES, DISAGREES, OPEN, CLOSE = "agrees", "DISAGREES", "undecided here", "too close in the paper"
VERDICTS = (AGREES, DISAGREES, OPEN, CLOSE)
_COLUMNS = ["ours", "low", "high", "seeds", "verdict"]


def lead(first: pd.DataFrame, second: pd.DataFrame, x: str) -> float:
    """Return the lead of `first` over `second`, -1 to 1; both are frames with x and accuracy."""
    start = max(first[x].min(), second[x].min())
    edges = np.unique(np.clip(np.concatenate([first[x], second[x]]), start, None))
    ahead = _best(first, edges, x) - _best(second, edges, x)
    if len(edges) == 1:
        return float(ahead[0])
    return float(np.average(ahead[:-1], weights=np.diff(np.log(np.clip(edges, 1, None)))))


def leads(first: pd.DataFrame, second: pd.DataFrame, x: str, panel: str = "") -> pd.Series:
    """Return `lead` for each seed that both have; with a panel, its mean over the panels that both have."""
    by = ["seed", panel] if panel else ["seed"]
    left, right = (dict(list(_with_means(side).groupby(by))) for side in (first, second))
    by_seed: dict[object, list[float]] = {}
    for key, group in left.items():
        if key in right:
            seed = group["seed"].tolist()[0]
            by_seed.setdefault(seed, []).append(lead(group, right[key], x))
    return pd.Series({seed: float(np.mean(values)) for seed, values in by_seed.items()}, dtype=float)


def compare(published: pd.DataFrame, ours: pd.DataFrame, *, x: str, panel: str = "") -> pd.DataFrame:
    """Compare every pair of mixers that both have: the order in the paper, and whether ours agrees.

    published: of `read.points`; ours: of `analysis.statistics.scored.of_seeds`.  x: the column of budgets;
    panel: a column (slice) within which points are compared.
    Columns: first, second (labels; first leads in the paper), published, ours (leads), low, high (over
    seeds), seeds, verdict.
    """
    labels = dict(zip(ours["mixer"], ours["label"], strict=True))
    names = sorted(set(published["mixer"]) & set(labels))
    printed = published.assign(seed=0)
    rows = []
    for one, other in combinations(names, 2):
        print_lead = _between(printed, one, other, x, panel).mean()
        first, second = (one, other) if print_lead >= 0 else (other, one)
        verdict = _verdict(_between(ours, first, second, x, panel), readable=abs(print_lead) >= LEAST)
        about = {"first": labels[first], "second": labels[second], "published": abs(print_lead)}
        rows.append(about | verdict)
    return pd.DataFrame(rows, columns=["first", "second", "published", *_COLUMNS])


def claims(figure: str, ours: pd.DataFrame) -> pd.DataFrame:
    """Test each claim of a figure on ours: claim, source, note and the columns of `compare` from "ours" on.

    A claim on settings that these cells do not have is left out.
    """
    rows = []
    for claim in read.claims(figure).to_dict("records"):
        by_seed = _claimed(claim, ours)
        if len(by_seed):
            rows.append({k: claim[k] for k in ("claim", "source", "note")} | _verdict(by_seed, readable=True))
    return pd.DataFrame(rows, columns=["claim", "source", "note", *_COLUMNS])


def tau(verdicts: pd.DataFrame) -> float:
    """Return Kendall's tau over the pairs that are apart in print: (agree - disagree) / all; NaN: no pair."""
    readable = verdicts.loc[verdicts["verdict"] != CLOSE, "verdict"]
    if readable.empty:
        return np.nan
    return float(((readable == AGREES).sum() - (readable == DISAGREES).sum()) / len(readable))


def _best(points: pd.DataFrame, budgets: np.ndarray, x: str) -> np.ndarray:
    within = points[x].to_numpy(float)[None] <= budgets[:, None]
    means = points["mean" if "mean" in points else "accuracy"].to_numpy(float)
    return points["accuracy"].to_numpy(float)[np.where(within, means[None], -np.inf).argmax(axis=1)]


def _with_means(points: pd.DataFrame) -> pd.DataFrame:
    """Add the mean of each of our points over its seeds, by which points are chosen."""
    if "point" not in points:
        return points  # published ones have no seeds
    return points.assign(mean=points.groupby(["load", "point"])["accuracy"].transform("mean"))


def _between(rows: pd.DataFrame, one: str, other: str, x: str, panel: str) -> pd.Series:
    known = rows.loc[rows[x].notna()]
    return leads(known.loc[known["mixer"] == one], known.loc[known["mixer"] == other], x, panel)


def _claimed(claim: dict[str, str], ours: pd.DataFrame) -> pd.Series:
    try:
        sides = [where(ours, claim[side]) for side in ("better", "worse")]
        for number, names in enumerate(filter(None, claim["equal"].split(";"))):
            sides = [side.assign(**{f"equal{number}": _product(side, names)}) for side in sides]
    except (ValueError, KeyError):  # a setting that no cell here has
        return pd.Series(dtype=float)
    if any(side.empty for side in sides):
        return pd.Series(dtype=float)
    keys = [name for name in sides[0] if str(name).startswith("equal")]
    better, worse = (side.assign(panel=side[keys].astype(str).agg("/".join, axis=1)) for side in sides)
    return leads(better, worse, "state_resident", "panel")


def _product(rows: pd.DataFrame, names: str) -> pd.Series:
    """Return the product of two columns for "a * b", that column for "a"."""
    first, *others = (rows[name.strip()].tolist() for name in names.split("*"))
    for other in others:
        first = [a * b for a, b in zip(first, other, strict=True)]
    return pd.Series(first, index=rows.index)


def _verdict(by_seed: pd.Series, readable: bool) -> dict[str, object]:
    mean, low, high = by_seed.mean(), by_seed.min(), by_seed.max()
    if not readable:
        verdict = CLOSE
    elif abs(mean) < LEAST or low < 0 < high:
        verdict = OPEN
    else:
        verdict = AGREES if mean > 0 else DISAGREES
    return {"ours": mean, "low": low, "high": high, "seeds": len(by_seed), "verdict": verdict}
