"""Put a comparison with published numbers into sentences."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from . import ordering
from .beside import NEAR, OFF, REPRODUCTION, WITHIN


def of_points(compared: pd.DataFrame) -> list[str]:
    """Count the rows of `beside.compare` that are as published, and name the points that are not."""
    count = compared["verdict"].value_counts()
    error = max(compared["reading_error"])
    lines = [
        f"{count.get(WITHIN, 0)} of {len(compared)} published points lie within our interval and their "
        f"reading error (up to {error:g}), {count.get(NEAR, 0)} more within {REPRODUCTION:g}, "
        f"{count.get(OFF, 0)} do not.  "
        "The papers choose the best of four rates on test rows; we choose on validation rows.  The mean "
        f"deviation is {compared['deviation'].mean():+.3f}, the mean absolute deviation "
        f"{compared['deviation'].abs().mean():.3f}."
    ]
    off = compared.loc[compared["verdict"] == OFF].sort_values("deviation", key=np.abs, ascending=False)
    for row in off.to_dict("records"):
        ends = f" ({row['low']:.3f} to {row['high']:.3f}, {row['interval']})"
        interval = "" if np.isnan(row["low"]) else ends
        lines.append(
            f"Off: {row['series']}, {row['settings']}, {row['slice']}: ours {row['ours']:.3f}"
            f"{interval}, published {row['published']:.3f} ({row['source']}, {row['figure']})."
        )
    return lines + _alone(compared["seeds"].tolist())


def of_ordering(verdicts: pd.DataFrame, what: str) -> list[str]:
    """Count the orderings of `ordering.compare` that agree, where no point has the published settings."""
    lines = [
        "No point has the published settings (task, width, loads), so sizes and accuracies cannot be "
        f"compared with the published ones; only the ordering is compared.  {_lead(what)}"
    ]
    if verdicts.empty:
        return [*lines, "Fewer than two of the published mixers are here: there is no ordering to compare."]
    return [*lines, _count(verdicts), *_each(verdicts, _pair), *_alone(verdicts["seeds"].tolist())]


def of_claims(verdicts: pd.DataFrame) -> list[str]:
    """Write a sentence on all rows of `ordering.claims`, and one on each that disagrees or is undecided."""
    if verdicts.empty:
        return ["No published statement is about these settings."]
    lines = [
        "These statements were published without numbers, so they are compared as orderings.  "
        + _lead("scalars of resident state")
    ]
    return [*lines, _count(verdicts), *_each(verdicts, _claim), *_alone(verdicts["seeds"].tolist())]


def _lead(what: str) -> str:
    return (
        "The lead of one mixer over another is the difference of their best accuracies at equal budget, "
        f"averaged over the {what} that both can have."
    )


def _count(verdicts: pd.DataFrame) -> str:
    each = verdicts["verdict"].tolist()
    agree, disagree, undecided, close = map(each.count, ordering.VERDICTS)
    left_out = f"; {close} more are less than {ordering.LEAST:g} apart in the paper" if close else ""
    return (
        f"Of {agree + disagree + undecided} published orderings, ours agree with {agree} and disagree "
        f"with {disagree}; our seeds do not decide {undecided}.  "
        f"Kendall's tau is {ordering.tau(verdicts):.2f}{left_out}."
    )


def _each(verdicts: pd.DataFrame, sentence: Callable[[dict], str]) -> list[str]:
    rows = verdicts.loc[verdicts["verdict"].isin([ordering.DISAGREES, ordering.OPEN])]
    return [sentence(row) for row in rows.sort_values("ours").to_dict("records")]


def _pair(row: dict) -> str:
    verdict, first, second = _verdict(row), row["first"], row["second"]
    printed = f"in the paper {first} leads {second} by {row['published']:.2f}"
    if row["ours"] < 0:
        first, second = second, first
        row = row | {"ours": -row["ours"], "low": -row["high"], "high": -row["low"]}
    return f"{verdict}: {printed}; here {first} leads {second} by {row['ours']:.3f}{_span(row)}."


def _claim(row: dict) -> str:
    by = f"{row['ours']:+.3f}{_span(row)}"
    note = f" ({row['note']})" if row["note"] else ""
    return f"{_verdict(row)}: {row['claim']}, {row['source']}{note}; here by {by}."


def _verdict(row: dict) -> str:
    return "Disagrees" if row["verdict"] == ordering.DISAGREES else "Undecided"


def _span(row: dict) -> str:
    if row["seeds"] < 2:
        return ""
    return f" ({row['low']:+.3f} to {row['high']:+.3f} over {row['seeds']} seeds)"


def _alone(seeds: list[int]) -> list[str]:
    one = min(seeds, default=2) < 2
    return ["There is one seed, so the variation between seeds is not known."] if one else []
