"""Collect the evaluations of cells after training: tables beside their records, and groups in the records."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from zoo.common.checks import one_line
from zoo.common.foreign import visible
from zoo.config.settings import flat
from zoo.results import evaluations

from ..records.sources import Sources

MOST_ROWS = 4000  # of one table of one cell; a longer one is not drawn
DIGITS = 5
OWN_TEST = "in the cell's own test"
Columns = dict[str, list[Any]]
Table = tuple[str, str, dict[str, Any], Columns]  # run_id, name of the evaluation, settings, columns


def collected(sources: Sources) -> list[dict[str, Any]]:
    """Return an entry for each question: name, asked (its difference from others of its name), and cells
    (run_id -> column -> values).  A table that cannot be read is one of `sources.problems`."""
    by_question: dict[tuple[str, str], dict[str, Any]] = {}
    for run_id, name, settings, columns in _tables(sources):
        key = (name, repr(sorted(settings.items())))
        question = by_question.setdefault(key, {"name": name, "settings": settings, "cells": {}})
        question["cells"][run_id] = columns
    return _named(list(by_question.values()))


def listed(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the page must know of the questions before one is drawn."""
    return [{"name": x["name"], "asked": x["asked"], "run_ids": list(x["cells"])} for x in questions]


def _named(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name the settings in which questions of one name differ; the cell's own test comes last."""
    named = []
    for each in questions:
        alike = [other["settings"] for other in questions if other["name"] == each["name"]]
        of = each["settings"]
        varying = [key for key in of if len({str(settings.get(key)) for settings in alike}) > 1]
        words = [f"{key}={visible(str(of[key]))}" for key in varying if key != OWN_TEST]
        own = [OWN_TEST] * (OWN_TEST in varying)
        named.append({"name": each["name"], "asked": ", ".join([*own, *words]), "cells": each["cells"]})
    own_last = [OWN_TEST in each["settings"] for each in questions]
    order = sorted(range(len(named)), key=lambda i: (own_last[i], named[i]["name"], named[i]["asked"]))
    return [named[i] for i in order]


def _tables(sources: Sources) -> Iterator[Table]:
    for record in sources.records:
        yield from _groups(record)
        folder = sources.folders[record["run_id"]]
        for name in evaluations.names(folder):
            try:
                head, table = evaluations.read(folder / evaluations.FOLDER, name)
            except (ValueError, OSError) as error:
                sources.problem(record["run_id"], one_line(error))
                continue
            of = (head["run_id"], head["weights"])
            if of != (record["run_id"].partition("@")[0], record.get("weights")):
                continue  # of earlier weights
            if len(table) > MOST_ROWS:
                why = f"{name} has {len(table):,} rows, more than the {MOST_ROWS:,} that are drawn."
                sources.problem(record["run_id"], why)
                continue
            asked = flat("", dict(head["settings"]))
            settings = {key: value for key, value in asked if value is not None and key != "task.seed"}
            yield record["run_id"], head["evaluation"], settings, _columns(table)


def _groups(record: dict[str, Any]) -> Iterator[Table]:
    """Yield the answers of the cell's own test as tables: one by distance, one by all other groups."""
    rows = [row for row in record.get("groups") or [] if row["answers"]]
    for name, own in (("distance", True), ("groups", False)):
        part = [row for row in rows if (row["group"] == "distance") is own]
        columns = {key: [row[key] for row in part] for key in ("split", "slice", "group", "value")}
        columns["accuracy"] = [_plain(row["right"] / row["answers"]) for row in part]
        if own:
            columns["distance"] = columns.pop("value")
            del columns["group"]
        if part:
            yield record["run_id"], name, {OWN_TEST: True}, columns


def _columns(table: pd.DataFrame) -> Columns:
    whole = {name for name in table if table[name].dtype.kind in "iub"}
    return {
        str(name): values if name in whole else [_plain(value) for value in values]
        for name, values in table.to_dict("list").items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if abs(value) < float("inf") else None  # NaN too
    return value if isinstance(value, int | bool) else str(value)
