"""Claims on forms of a state, written before the runs: one form is ahead of another, tested seed by seed.

The CSV is that of `analysis.claims`; its conditions name columns of the answers (mixer, format, scale,
rounding, every), and each must leave one form of one point.
"""

import pandas as pd

from ..records.where import where
from ..statistics.paired import compare, tested
from .answers import FORM


def check(answers: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims with the columns of `paired.tested`.

    Equal seeds share data and order; p is two-sided and exact up to 14 pairs, Holm's correction is over the
    claims of the file, and a claim holds where the mean difference is positive and p_holm at most .05.
    ValueError, one line: a condition that leaves no form or several.
    """
    compared = [
        compare(*(scores(answers, row[side], row["slice"]) for side in ("ahead", "behind")))
        for row in claims.to_dict("records")
    ]
    return tested(claims, compared)


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
