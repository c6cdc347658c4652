"""What the page shows of one cell that is clicked: its curve, config and command; packed."""

import base64
import csv
import gzip
import io
import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import yaml

from analysis.curves import learning_curves
from analysis.report import sources
from analysis.report.commands import command
from analysis.report.sources import Problem, Sources
from zoo.results import flat

MOST = 120  # points of a curve; a longer one is thinned
DIGITS = 4  # of an accuracy in a curve
LOCAL = ("results:", "logger:")  # top-level keys of a config that are about the machine


def details(found: Sources) -> dict[str, dict[str, Any]]:
    """run_id -> {command, config, ...}; a curve that cannot be read is one of `found.problems`."""
    curves = _curves(found)
    return {record["run_id"]: _of(record, found, curves) for record in found.records}


def packed(what: Any) -> str:
    """JSON, compressed, in base64: for DecompressionStream("gzip").  The same thing, the same characters."""
    text = json.dumps(what, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def config_of(found: Sources, run_id: str) -> dict[str, Any]:
    """The config of a cell as dotted key -> scalar; {} where it has none that can be read."""
    try:
        config = yaml.safe_load(sources.text(found.folders[run_id], "config.yaml"))
    except yaml.YAMLError:
        return {}
    return dict(flat("", config)) if isinstance(config, dict) else {}


def _of(
    record: dict[str, Any], found: Sources, curves: dict[str, tuple[list[int], list[float]]]
) -> dict[str, Any]:
    steps, accuracy = curves.get(record["run_id"], ([], []))
    words = record.get("overrides")
    return {
        "command": "" if words is None else command(words),
        "config": _config(sources.text(found.folders[record["run_id"]], "config.yaml")),
        "revision": record.get("git_revision"),
        "clean": record.get("git_clean"),
        "steps": steps,
        "accuracy": accuracy,
    }


def _curves(found: Sources) -> dict[str, tuple[list[int], list[float]]]:
    """run_id -> steps and validation accuracies, the mean over the slices."""
    rows: list[tuple[Any, ...]] = []
    for run_id, folder in found.folders.items():
        try:
            rows += [(run_id, *row) for row in _validations(sources.text(folder, "metrics.csv"))]
        except (ValueError, OSError) as error:
            found.problems.append(Problem(run_id, f"its curve is not drawn: {error}"))
    frame = pd.DataFrame(rows, columns=["run_id", "step", "split", "slice", "metric", "value"])
    by_cell = learning_curves(frame).sort_values("step").groupby("run_id")
    return {str(run_id): _thinned(curve) for run_id, curve in by_cell}


def _validations(text: str) -> Iterator[tuple[int, str, str, str, float]]:
    """The rows of a metrics.csv that a curve is made of."""
    reader = csv.reader(io.StringIO(text))
    if next(reader, None) != ["step", "split", "slice", "metric", "value"]:
        raise ValueError("metrics.csv is not there, or has no header")
    for number, row in enumerate(reader, start=2):
        if len(row) != 5:
            raise ValueError(f"line {number} of metrics.csv is cut off")
        step, split, slice_, metric, value = row
        if split == "valid" and metric == "accuracy":
            yield int(step), split, slice_, metric, float(value)


def _thinned(curve: pd.DataFrame) -> tuple[list[int], list[float]]:
    kept = curve.iloc[::-1].iloc[:: -(-len(curve) // MOST)].iloc[::-1]  # the last one stays
    return kept["step"].tolist(), [round(value, DIGITS) for value in kept["accuracy"].tolist()]


def _config(text: str) -> str:
    """Without folders and loggers: what lies below those keys is indented."""
    kept, skipping = [], False
    for line in text.splitlines():
        if not line.startswith((" ", "-")):
            skipping = line.startswith(LOCAL)
        if not skipping:
            kept.append(line)
    return "\n".join(kept)
