"""Compare published points with ours of the same task, slice and settings."""

import numpy as np
import pandas as pd

from ..records.cells import word
from .read import settings

# our margin; the two published runs of one point lie up to .115 apart (Mamba), most within .03
REPRODUCTION = 0.05
FULL_VIEW = 0.9995
WITHIN, NEAR, OFF = "within", "near", "OFF"
COLUMNS = (
    "source", "figure", "mixer", "series", "settings", "slice", "published", "reading_error", "ours", "low",
    "high", "interval", "seeds", "candidates", "deviation", "verdict", "note",
)  # fmt: skip


def compare(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Return a row per published point that ours has at the same settings.

    published: of `read.points`; ours: of `analysis.statistics.scored.means` or `alone`.
    Where the settings of a published point are not all known, the best of our points that fit is compared, as
    the figures show the best of the points with equal state (candidates: how many fit).
    deviation: ours - published.  verdict: "within" if our interval meets published +- reading error; "near"
    if it does with REPRODUCTION more, unless a bounded view determines the accuracy; else "OFF".
    """
    rows = []
    for point in _known(published).to_dict("records"):
        fits = ours.loc[_fits(ours, point, settings(published))]
        if len(fits):
            best = fits.loc[fits["accuracy"].idxmax()]
            rows.append(_row(point, best.to_dict(), len(fits)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _known(published: pd.DataFrame) -> pd.DataFrame:
    """Keep only the best of several points without known settings: only the best can be compared."""
    unknown = pd.Series(published[settings(published)].isna().to_numpy().all(axis=1), index=published.index)
    if "state" not in published:
        return published.loc[~unknown]
    nameless = published.loc[unknown].sort_values("accuracy").groupby(["source", "mixer", "state"]).tail(1)
    return pd.concat([published.loc[~unknown], nameless]).sort_index()


def _fits(ours: pd.DataFrame, point: dict, names: list[str]) -> pd.Series:
    fits = pd.Series(True, index=ours.index)
    for name in ("task", "mixer", "slice"):
        fits &= ours[name] == point[name]
    given = [name for name in names if word(point[name])]
    for name in given:
        fits &= (ours[name] == point[name]) if name in ours else False
    if not given:
        fits &= ours["state_paper"] == point["state"]
    return fits


def _row(point: dict, ours: dict, candidates: int) -> dict[str, object]:
    low, high = (ours["accuracy"] if np.isnan(ours[end]) else ours[end] for end in ("low", "high"))
    apart = max(0.0, low - point["accuracy"], point["accuracy"] - high)
    slack = 0.0 if ours["coverage"] < FULL_VIEW else REPRODUCTION
    error = point["reading_error"] + 1e-9
    verdict = WITHIN if apart <= error else NEAR if apart <= error + slack else OFF
    return {key: point[key] for key in ("source", "figure", "mixer", "slice", "reading_error", "note")} | {
        "series": ours["series"],
        "settings": f"d_model={ours['d_model']} {ours['knobs']}".strip(),
        "published": point["accuracy"],
        "ours": ours["accuracy"],
        **{key: ours[key] for key in ("low", "high", "interval", "seeds")},
        "candidates": candidates,
        "deviation": ours["accuracy"] - point["accuracy"],
        "verdict": verdict,
    }
