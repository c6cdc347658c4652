"""What the page shows of one cell that is clicked: its curve, config and command; packed."""

import base64
import gzip
import io
import json
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
    return {record["run_id"]: _of(record, found) for record in found.records}


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


def _of(record: dict[str, Any], found: Sources) -> dict[str, Any]:
    folder = found.folders[record["run_id"]]
    steps, accuracy = [], []
    try:
        steps, accuracy = _curve(sources.text(folder, "metrics.csv"))
    except (ValueError, KeyError, OSError) as error:
        found.problems.append(Problem(record["run_id"], f"metrics.csv cannot be read: {error}"))
    return {
        "command": command(record.get("overrides") or []),
        "config": _config(sources.text(folder, "config.yaml")),
        "revision": record.get("git_revision"),
        "clean": record.get("git_clean"),
        "steps": steps,
        "accuracy": accuracy,
    }


def _curve(text: str) -> tuple[list[int], list[float]]:
    """Steps and validation accuracy, the mean over its slices."""
    if not text:
        raise ValueError("it is not there")
    curve = learning_curves(pd.read_csv(io.StringIO(text)).assign(run_id="")).sort_values("step")
    stride = -(-len(curve) // MOST)
    kept = curve.iloc[::-1].iloc[:: max(1, stride)].iloc[::-1]  # the last one stays
    return kept["step"].tolist(), [round(value, DIGITS) for value in kept["accuracy"]]


def _config(text: str) -> str:
    """Without folders and loggers: what lies below those keys is indented."""
    kept, skipping = [], False
    for line in text.splitlines():
        if not line.startswith((" ", "-")):
            skipping = line.startswith(LOCAL)
        if not skipping:
            kept.append(line)
    return "\n".join(kept)
