"""Claims on forms of a state, written before the runs: one form is ahead of another, tested seed by seed.

The CSV is that of `analysis.claims`; its conditions name columns of the answers (mixer, format, scale,
rounding, every), and each must leave one form of one point.
"""

import pandas as pd

from ..records.where import where
from ..statistics.paired import compare, holm
from .answers import FORM

LEVEL = 0.05
HOLDS, OPEN, REVERSED = "holds", "not shown", "the other way round"


def check(answers: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims with the columns of `paired.compare`, p_holm and verdict.

    Equal seeds share data and order; p is two-sided and exact up to 14 pairs, Holm's correction is over the
    claims of the file, and a claim holds where the mean difference is positive and p_holm at most .05.
    ValueError, one line: a condition that leaves no form or several.
    """
    tested = pd.DataFrame([
        compare(*(scores(answers, row[side], row["slice"]) for side in ("ahead", "behind")))
        for row in claims.to_dict("records")
    ])  # fmt: skip
    tested["p_holm"] = holm(tested["p"].to_numpy(float))
    tested["verdict"] = [_verdict(row) for row in tested.to_dict("records")]
    return pd.concat([claims, tested], axis=1)


def scores(answers: pd.DataFrame, condition: str, name: str) -> pd.Series:
    """Return the accuracy by seed of the one form of one point that fulfils a condition."""
    rows = where(answers, condition)
    rows = rows.loc[rows["slice"] == name]
    left = len(rows.drop_duplicates(["point", *FORM]))
    if left != 1 or rows["seed"].duplicated().any():
        raise ValueError(
            f"{condition!r} leaves {left} forms of {name}, or one that was asked twice: name one."
        )
    return pd.Series(rows["accuracy"].to_numpy(), index=rows["seed"].to_numpy())


def _verdict(row: dict) -> str:
    if not row["p_holm"] <= LEVEL:
        return OPEN
    return HOLDS if row["difference"] > 0 else REVERSED
