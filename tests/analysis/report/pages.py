"""Helpers of the report's tests: its page read back, made-up answers."""

import base64
import gzip
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.report.page import report
from tests.analysis import fake
from zoo.results import evaluations, store

HOSTILE = "<script>alert(1)</script>"


def saved(path: Path, *sources: Path) -> Path:
    """Write the report of these results to a file."""
    path.write_text(report(sources)[0], encoding="utf-8")
    return path


class Page(HTMLParser):
    """Elements, by name, with their attributes; texts of the scripts that have an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        of = self.elements[-1][1].get("id") if self.elements else None
        if of:
            self.texts[of] = self.texts.get(of, "") + data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.texts["data"])

    @property
    def details(self) -> dict[str, Any]:
        return json.loads(gzip.decompress(base64.b64decode(self.texts["details"])))


WEIGHTS = "0" * 64


def answer(folder: Path, name: str, table: pd.DataFrame, weights: str = WEIGHTS, **settings: Any) -> Path:
    place = evaluations.place(folder, name, settings, weights)
    head = {"evaluation": name, "run_id": folder.name, "weights": weights}
    evaluations.write(place, head | {"settings": {"evaluation": settings}}, table)
    return place


def answered(first: bool) -> pd.DataFrame:
    """Return answers at four places, of key 5 and value 9: right for both cells, the first, the second, none.

    The source is the key, and in the other slice the value.  The first cell has one more place.
    """
    rights = (True, first, not first, False)
    table = pd.DataFrame({"slice": ["a=1", "a=1", "a=2", "a=2"], "example": 0, "place": [3, 5, 3, 5]})
    answers = table.assign(target=9, answer=[9 if right else 7 for right in rights])
    answers["right"] = (answers["answer"] == 9).astype(int)
    row = f"5 9 {HOSTILE} 5 7 5"
    whole = answers.assign(
        kind=["old", "new"] * 2, source=[0, 0, 1, 1], distance=answers["place"], tokens=[row, "", row, ""]
    )
    return pd.concat([whole, whole.tail(1).assign(place=2)]) if first else whole


def write(home: Path) -> Path:
    """Write cells with a user's evaluation, those of Based with load_distance too; one answer is damaged."""
    for place, folder in enumerate(store.folders(fake.write(home, seeds=2))):
        fake.change(folder, weights=WEIGHTS)
        mine = pd.DataFrame(
            {"depth": [1, 2, 30], "nats": [place, 2.5, float("nan")], HOSTILE: ["a", "b", "b"]}
        )
        answer(folder, "mine", mine)
        if folder.name.startswith("based"):
            grid = [(pairs, distance) for pairs in (2, 4) for distance in (8, 64)]
            table = pd.DataFrame(grid, columns=["num_kv_pairs", "distance"])
            table["accuracy"] = [(place % 7 + i) / 16 for i in range(len(table))]
            answer(folder, "load_distance", table.assign(guess=1 / table["num_kv_pairs"]), rows=8)
            answer(folder, "load_distance", table.assign(accuracy=1.0), weights="1" * 64)  # gone
        if folder.name.startswith(("attention", "hyena")):
            answer(folder, "answers", answered(folder.name.startswith("attention")))
    answer(folder, "mine", mine, rows=1).write_text("no table")
    return home
