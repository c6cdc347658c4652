"""Load finished cells as tables: one row for each cell, split and slice."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.config.settings import flat
from zoo.results.columns import KEYS, REAL
from zoo.results.reading import Reading
from zoo.results.store import curves, groups, records


def load(results: str | Path) -> pd.DataFrame:
    """Return every finished cell of a folder or archive, one row for each (cell, split, slice); tidy.

    The columns of `zoo.results.columns.KEYS`, then split and slice, then a column for each setting of any
    mixer (mixer.<key>, dotted as on the command line; NaN where a mixer has no such setting) and task
    (task.<key>, without its segments; task.class: as its yaml names it), for `start`, its mixer
    (adaptation.start) and each key of `adaptation` and of `state_codec` where some cells have them, for each
    key of a slice, and for its scores.
    docs/numbers.md explains each column.  A value that a record lacks is NaN.

    A record that is damaged or foreign is left out with a warning, a line each.  ValueError, one line with
    the fix: no such folder, or no finished cell in it.
    """
    return table(records(results))


def table(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the table of `load` from records that were already read; at least one."""
    rows = [row for record in records for row in _rows(record)]
    frame = pd.DataFrame(rows)
    frame = frame.astype({column: float for column in REAL if column in frame})
    first = [*KEYS, "split", "slice"]
    whole = frame.reindex(columns=[*first, *(column for column in frame if column not in first)])
    return whole.copy()  # defragmented: pandas warns of tables whose columns were added one by one


def _rows(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    settings = dict(flat("mixer", record["mixer_settings"])) | dict(flat("task", record["task_settings"]))
    made_from = record.get("made_from", {})
    if text := made_from.get("corpus"):  # files are what they hold, not where they lie
        settings["task.corpus"] = f"files {made_from.get('sha256', '')[:8]}" if text == "files" else text
    if start := record.get("start"):
        settings |= {"start": start, "adaptation.start": start.rpartition("-")[0]}
    for section in ("adaptation", "state_codec"):
        settings |= flat(section, record.get(section, {}))
    of_pairs = all("num_kv_pairs" in entry["slice"] for entry in record["slices"])
    axis = record.get("load_axis", "num_kv_pairs" if of_pairs else None)  # old MQAR lacks it
    cell = {key: record[key] for key in KEYS} | settings | {"load_axis": axis}
    cell["task.class"] = record["task_settings"].get("_target_")
    for entry in record["slices"]:
        yield cell | {"chance": None} | entry | {"slice": slice_name(entry["slice"])} | entry["slice"]


def slice_name(slice_: dict[str, int | str]) -> str:
    """Return the name of a slice in tables: "seq_len=64,num_kv_pairs=4"."""
    return ",".join(f"{key}={value}" for key, value in slice_.items())


def load_metrics(results: str | Path) -> pd.DataFrame:
    """Return the curves of every finished cell: run_id, mixer, step, split, slice, metric, value.

    A cell whose curve is missing or damaged is left out with a warning.  Errors as `load`.
    """
    reading = Reading(results)
    frame, lost = curves(reading)
    reading.warn(lost)
    return frame


def load_groups(results: str | Path) -> pd.DataFrame:
    """Return the answers of every cell that did not diverge, counted by the groups of their task.

    run_id, split, slice; group: the name of a group of the task; value: a word or a number of the group (of
    "distance": the source lies more than value / 2 and at most `value` tokens back); answers, right: how many
    there are, and how many of them are right.  Errors as `load`.
    """
    return groups(records(results))
