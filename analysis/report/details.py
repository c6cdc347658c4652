"""Pack what the page shows of a cell that a reader clicks: its curves, config and command."""

import base64
import csv
import gzip
import io
import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from zoo.results.home import text
from zoo.results.metrics_csv import HEADER

from ..drawing.curves import learning_curves, training_losses
from ..records.sources import Sources

MOST = 120  # points of a curve; a longer one is thinned
DIGITS = 4  # of a value in a curve
DRAWN = {("valid", "accuracy"), ("train", "loss"), ("train", "answers")}  # splits and metrics
Curve = tuple[list[int], list[float | None]]  # steps, values
LOCAL = ("results:", "logger:")  # top-level keys of a config that only concern the machine


def details(sources: Sources) -> dict[str, dict[str, Any]]:
    """Return run_id -> {command, config, ...}; a curve that cannot be read is one of `sources.problems`."""
    curves = _curves(sources)
    return {record["run_id"]: _of(record, sources, curves) for record in sources.records}


def packed(what: Any) -> str:
    """Return compressed JSON in base64, for DecompressionStream("gzip"); equal data give equal texts."""
    text = json.dumps(what, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def _of(record: dict[str, Any], sources: Sources, curves: dict[str, dict[str, Curve]]) -> dict[str, Any]:
    run_id, words = record["run_id"], record.get("overrides")
    return {
        "command": "" if words is None else command(words, record.get("config_dir") or ""),
        "config": _config(sources.text(run_id, "config.yaml")),
        "revision": record.get("git_revision"),
        "clean": record.get("git_clean"),
    } | {name: of.get(run_id, ([], [])) for name, of in curves.items()}


def _curves(sources: Sources) -> dict[str, dict[str, Curve]]:
    """Return the curves of accuracy (validation, mean over slices) and loss (training), each by run_id."""
    rows: list[tuple[Any, ...]] = []
    for run_id in sources.folders:
        try:
            content = text(sources.folders[run_id], "metrics.csv", linked=False)
            rows += [(run_id, *row) for row in _drawn(content)]
        except (ValueError, OverflowError, csv.Error) as error:
            sources.problem(run_id, f"its curve is not drawn: {error}")
    frame = pd.DataFrame(rows, columns=["run_id", *HEADER])
    losses = training_losses(frame) if "train" in set(frame["split"]) else pd.DataFrame()
    return {"accuracy": _by_cell(learning_curves(frame), "accuracy"), "loss": _by_cell(losses, "loss")}


def _drawn(text: str) -> Iterator[tuple[int, str, str, str, float]]:
    """Yield the rows of a metrics.csv that the curves need."""
    reader = csv.reader(io.StringIO(text))
    if tuple(next(reader, ())) != HEADER:
        raise ValueError("metrics.csv has no header")
    for number, row in enumerate(reader, start=2):
        if len(row) != 5:
            raise ValueError(f"line {number} of metrics.csv is cut off")
        step, split, slice_, metric, value = row
        if (split, metric) in DRAWN:
            yield int(step), split, slice_, metric, float(value)


def _by_cell(frame: pd.DataFrame, what: str) -> dict[str, Curve]:
    if frame.empty:
        return {}
    grouped = frame.sort_values("step").groupby("run_id")
    return {str(run_id): _thinned(curve["step"].tolist(), curve[what].tolist()) for run_id, curve in grouped}


def _thinned(steps: list[int], values: list[float]) -> Curve:
    """Return at most MOST points of a curve, the last included; a value that is not finite is None."""
    shown = slice((len(steps) - 1) % (stride := -(-len(steps) // MOST)), None, stride)
    return steps[shown], [float(f"{y:.{DIGITS}g}") if math.isfinite(y) else None for y in values[shown]]


def _config(text: str) -> str:
    """Return the config without folders and loggers: their keys and the indented lines below them."""
    lines, skipping = [], False
    for line in text.splitlines():
        if not line.startswith((" ", "-")):
            skipping = line.startswith(LOCAL)
        if not skipping:
            lines.append(line)
    return "\n".join(lines)


LEFT_OUT = re.compile(r"[+~]*(results|logger|hydra)([=./]|$)")  # words on where and how a cell ran, not what


def command(overrides: Iterable[str], config_dir: str = "") -> str:
    """Return `python -m zoo.run` with the words of a record, quoted for a shell; without folders and loggers.

    config_dir: the folder of the user's own yamls; Python finds their mixer in the current folder.
    """
    folder = ["--config-dir", config_dir] if config_dir else []
    words = [*folder, *(word for word in overrides if not LEFT_OUT.match(word))]
    return " ".join(["PYTHONPATH=. " * bool(folder) + "python -m zoo.run", *map(shlex.quote, words)])
