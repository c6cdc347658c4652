"""Collect the data that the page needs from the start: plain lists in columns, for JSON."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from ..drawing.style import Look, by_family, looks
from ..records.cells import slices
from ..records.sources import Failure, Sources
from ..statistics import bounds
from ..statistics.axes import AXES, BF16, FP32, PER_CELL
from ..statistics.chance import chance, chance_in_words
from ..statistics.points import ORDER
from ..statistics.seeds import resamples
from .settings import Setting

SPLITS = ("test", "valid")
OF_THE_POINT = (
    "point", "mixer", "label", "family", "series", "knobs", "d_model", "n_layers", "parameters",
    "causal", "exact_decode", "state_seq_len", "state_resident", "state_paper", "state_touched",
    "bytes_fp32", "bytes_bf16",
)  # fmt: skip
OF_THE_CELL = (
    "run_id", "lr", "seed", "steps", "diverged_step", "examples_per_second", "peak_memory_bytes",
    *PER_CELL,
)  # fmt: skip
# The columns of the page's CSV: those of `python -m analysis.pareto` that the page knows, in its order.
CSV = (
    "mixer", "series", "knobs", "d_model", "n_layers", "accuracy", "low", "high", "interval", "seeds",
    "diverged", "accuracy_finished", "coverage", "lr", "valid_accuracy", "lrs", "lr_edge",
    "diverged_in_grid", "label", "family", "parameters", "causal", "exact_decode", "state_seq_len",
    "state_resident", "state_paper", "state_touched", "decode_tokens_per_second", "operations",
    "wall_seconds", "bytes_fp32", "bytes_bf16", "on_frontier", "point",
)  # fmt: skip
REAL = (
    "accuracy", "low", "high", "accuracy_finished", "coverage", "lr", "valid_accuracy", "state_paper",
    *PER_CELL,
)  # fmt: skip
# Short names and units of the axes, where there is little room.
SHORT = {
    "resident": ("resident state", ""),
    "paper": ("state as published", ""),
    "touched": ("touched state", ""),
    "fp32": ("bytes in fp32", ""),
    "bf16": ("bytes in bf16", ""),
    "parameters": ("parameters", ""),
    "throughput": ("decode throughput", "tokens/s"),
    "operations": ("training cost", "FLOPs"),
    "seconds": ("training time", "s"),
}
# matplotlib's markers in plotly's words
SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "p": "pentagon",
    "d": "diamond-tall", "h": "hexagon", "P": "cross", "8": "octagon", "H": "hexagon2", "*": "star",
    "<": "triangle-left", ">": "triangle-right",
}  # fmt: skip
STATES = 120  # state sizes at which a bound is computed


def setting(of: Setting, sources: Sources) -> dict[str, Any]:
    """Return one setting with its points and cells in columns; a cell names its point by its index."""
    points = of.table.drop_duplicates("point").sort_values(ORDER, ignore_index=True)
    resident = points["state_resident"]
    points = points.assign(bytes_fp32=resident * FP32, bytes_bf16=resident * BF16)
    cells = of.table.drop_duplicates("run_id").sort_values(["point", "lr", "seed"], ignore_index=True)
    place = {point: i for i, point in enumerate(points["point"])}
    names = {split: slices(of.table, split) for split in SPLITS}
    return {
        "name": of.name,
        "slices": names,
        "series": _series(points),
        "points": _columns(points, OF_THE_POINT)
        | {"again": [place.get(sources.again.get(point, "")) for point in points["point"]]},
        "cells": _columns(cells, OF_THE_CELL)
        | {
            "point": [place[point] for point in cells["point"]],
            "origin": [sources.origin[run_id] for run_id in cells["run_id"]],
            "diverged": (cells["status"] == "diverged").tolist(),
            "accuracy": {s: _by_slice(of.table, cells, s, names[s], "accuracy") for s in SPLITS},
            "coverage": {s: _by_slice(of.table, cells, s, names[s], "coverage") for s in SPLITS},
        },
        "bounds": _bounds(of.table, names),
        "guess": chance_in_words(of.table, names["test"]),
        "chance": {split: [_plain(chance(of.table, [name])) for name in names[split]] for split in SPLITS},
    }


def axes() -> list[dict[str, Any]]:
    """Return the quantities that accuracy can be drawn against, with their names."""
    return [
        {
            "key": key,
            "short": SHORT[key][0],
            "short_unit": SHORT[key][1],
            "column": axis.column,
            "words": axis.words,
            "unit": axis.unit,
            "more": axis.more,
            "ticks": axis.ticks,
            "bounds": [*(bounds.BITS[bits] for bits in axis.bits), bounds.HEURISTIC] if axis.bits else [],
            "per_scalar": axis.per_scalar,
        }
        for key, axis in AXES.items()
    ]


def bootstrap(settings: list[Setting]) -> dict[int, list[tuple[int, list[int]]]]:
    """Return number of seeds -> distinct resamples of `seeds`, as (how often, count of each seed in it)."""
    cells = pd.concat([of.table.drop_duplicates("run_id") for of in settings])
    most = max(cells.groupby(["point", "lr"])["seed"].nunique().tolist())
    known = {}
    for count in range(4, most + 1):
        drawn = resamples(count)
        multiplicities = (drawn[:, :, None] == np.arange(count)).sum(axis=1)
        kinds = Counter(map(tuple, multiplicities.tolist()))
        known[count] = [(times, list(kind)) for kind, times in sorted(kinds.items())]
    return known


def failures(failed: list[Failure]) -> list[dict[str, Any]]:
    """Return an entry for each message, the most frequent first, with the traceback of its first cell."""
    groups: dict[str, list[Failure]] = {}
    for failure in failed:
        groups.setdefault(failure.first, []).append(failure)
    return [
        {"first": first, "run_ids": [one.run_id for one in group], "traceback": group[0].traceback}
        for first, group in sorted(groups.items(), key=lambda entry: -len(entry[1]))
    ]


def _series(points: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the series in the order of the legend: by family, each with its look."""
    style: dict[str, Look] = looks(points)
    rows = points.drop_duplicates("series").sort_values(["family", "mixer", "series"], key=by_family)
    return [
        {
            "name": row["series"],
            "mixer": row["mixer"],
            "family": row["family"],
            "colour": style[row["series"]].colour,
            "symbol": SYMBOLS[style[row["series"]].marker],
            "size": round(math.sqrt(style[row["series"]].area), 3),
        }
        for row in rows.to_dict("records")
    ]


def _bounds(table: pd.DataFrame, names: dict[str, list[str]]) -> dict[str, Any]:
    """Return states, and by bound and split the accuracy [slice][state]; {} if the task has no bound."""
    most = max(table["state_resident"].tolist())
    states = np.round(np.geomspace(0.25, max(4 * most, 1024), STATES), 3)
    table = bounds.of_mqar(table)
    vocab_size = table[bounds.VOCAB_SIZE].iloc[0] if bounds.VOCAB_SIZE in table else None
    alone = {s: [bounds.curves([name], vocab_size, states) for name in names[s]] for s in SPLITS}
    if any(curve.empty for split in alone.values() for curve in split):
        return {}
    lines = {
        label: {
            s: [[round(y, 4) for y in curve.loc[curve["bound"] == label, "accuracy"]] for curve in alone[s]]
            for s in SPLITS
        }
        for label in bounds.LABELS
    }
    return {"states": states.tolist(), "lines": lines}


def _columns(frame: pd.DataFrame, names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: [_plain(value) for value in frame[name].tolist()] for name in names}


def _by_slice(
    table: pd.DataFrame, cells: pd.DataFrame, split: str, names: list[str], what: str
) -> list[list[float | None]] | list[float]:
    """Return values [cell][slice]; if all are the same number, only that: [1.0]."""
    rows = table.loc[table["split"] == split]
    wide = rows.pivot(index="run_id", columns="slice", values=what).reindex(cells["run_id"])[names]
    values = wide.to_numpy(float)
    if values.size and (values == values.flat[0]).all():
        return [float(values.flat[0])]
    return [[_plain(value) for value in row] for row in values.tolist()]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN and missing are null, 64.0 is 64."""
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
