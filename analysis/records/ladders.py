"""Find ladders: points of one mixer that differ in one setting alone, which shows the setting's effect."""

import math
from collections import defaultdict
from dataclasses import dataclass

import pandas as pd

from .cells import word
from .written import number

WIDTH = "d_model"


@dataclass(frozen=True)
class Ladder:
    """Points that differ in `knob` alone, a setting named as in the mixer's yaml.  rows: one for each value,
    rising if values are numbers.  fixed: settings that differ from other ladders of this knob and mixer."""

    knob: str
    rows: pd.DataFrame
    fixed: str

    @property
    def values(self) -> list[str]:
        return [word(value) for value in self.rows[column(self.knob)]]

    @property
    def counts(self) -> bool:
        """Return whether the values are numbers."""
        return not any(map(math.isnan, map(number, self.values)))


def ladders(points: pd.DataFrame) -> dict[str, list[Ladder]]:
    """Return knob -> its ladders of two points or more.

    points: rows of one load with the columns mixer, series, d_model and mixer.<setting>, as
    `analysis.statistics.scored.means` returns them.
    """
    of_setting: dict[str, list[Ladder]] = defaultdict(list)
    for _, rows in points.groupby("mixer", sort=True):
        names = [str(name) for name in rows if str(name).startswith("mixer.") and name != f"mixer.{WIDTH}"]
        names = [name for name in [WIDTH, *names] if len({word(value) for value in rows[name]}) > 1]
        for name in names:
            for ladder in _of_knob(rows, name, [other for other in names if other != name]):
                of_setting[ladder.knob].append(ladder)
    return of_setting


def column(knob: str) -> str:
    return knob if knob == WIDTH else f"mixer.{knob}"


def _of_knob(rows: pd.DataFrame, name: str, others: list[str]) -> list[Ladder]:
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(rows[others].map(word).to_numpy().tolist()):
        groups[tuple(row)].append(place)
    several = {key: places for key, places in groups.items() if len(places) > 1}
    differ = [i for i in range(len(others)) if len({key[i] for key in several}) > 1]
    return [
        Ladder(
            name.removeprefix("mixer."),
            _rising(rows.iloc[places], name),
            " ".join(f"{others[i].removeprefix('mixer.')}={key[i]}" for i in differ),
        )
        for key, places in several.items()
    ]


def _rising(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    words = [word(value) for value in rows[name]]
    numbers = [number(text) for text in words]
    if any(map(math.isnan, numbers)):
        numbers = [0.0] * len(words)  # words alone are sorted
    keys = list(zip(numbers, words, strict=True))
    return rows.iloc[sorted(range(len(rows)), key=keys.__getitem__)]
