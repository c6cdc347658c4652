"""Write the record of a cell: one folder of plain files, of which a reader never sees a half.

    results/<run_id>/config.yaml   the resolved config
                     env.json      versions, git revision, machine, command line
                     metrics.csv   step, split, slice, metric, value (written while training)
                     weights.safetensors   the final weights, where they are kept (zoo/results/weights.py)
                     last.ckpt     where training goes on after a kill
                     result.json   written last, in one move: if it exists, the cell is done
                     error.txt     instead of result.json, the traceback of a cell that failed

There is no database: a thousand array tasks may write at once on a network file system.

Finished cells can be kept and given away in one file: `python -m zoo archive` makes a NAME.zip with the same
folders in it, and every command that reads results reads both.
"""

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.common.checks import one_line
from zoo.common.foreign import visible
from zoo.results import lease
from zoo.results.atomic import room, write
from zoo.results.home import WEIGHTS, Home, cells, folders, shown, text
from zoo.results.metrics_csv import HEADER
from zoo.results.reading import Reading, is_done, parsed, read
from zoo.results.record import SCHEMA, TIME, is_time
from zoo.results.source import changed

__all__ = ["Home", "Reading", "cells", "folders", "is_done", "parsed", "read"]  # and the functions below

FILES = (  # of a cell
    *("config.yaml", "env.json", "metrics.csv", "last.ckpt", WEIGHTS, "result.json", "error.txt"),
    lease.NAME,
)
FOLDERS = (".sweeps", ".rerun", ".slurm")  # of a results folder


def curves(reading: Reading) -> tuple[pd.DataFrame, list[str]]:
    """Return the table of `load_metrics`, and a line for each record whose curve is missing or damaged."""
    frames, lost = [], []
    for folder, record in reading:
        try:
            frames.append(curve(folder).assign(run_id=record["run_id"], mixer=record["mixer"]))
        except ValueError as error:
            lost.append(f"{error} Its cell has no curve.")
    if not frames:
        raise ValueError(lost[0] if lost else reading.nothing())
    return pd.concat(frames, ignore_index=True).reindex(columns=["run_id", "mixer", *HEADER]), lost


def curve(folder: Home) -> pd.DataFrame:
    """Return metrics.csv of a cell as a table of HEADER.  ValueError, one line: it is missing or damaged."""
    content = text(folder, "metrics.csv")
    try:
        frame = pd.read_csv(io.StringIO(content))
    except ValueError as error:
        raise ValueError(f"{shown(folder / 'metrics.csv')} is no table ({one_line(error)}).") from None
    kinds = "".join(frame[name].dtype.kind if name in frame else "-" for name in ("step", "value"))
    if tuple(frame.columns) != HEADER or kinds not in ("if", "ii"):
        raise ValueError(
            f"{shown(folder / 'metrics.csv')} must have the columns {', '.join(HEADER)}, "
            "numbers in step and value."
        )
    names = {name: frame[name].map(visible, na_action="ignore") for name in ("split", "slice", "metric")}
    return frame.assign(**names) if len(frame) else frame


def groups(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the table of `load_groups` from records that were already read."""
    columns = ["run_id", "split", "slice", "group", "value", "answers", "right"]
    rows = [{"run_id": record["run_id"]} | row for record in records for row in record["groups"]]
    return pd.DataFrame(rows, columns=columns)


def records(results: str | Path) -> list[dict[str, Any]]:
    """Return result.json of every finished cell, ordered by run id; warnings and errors as `load`."""
    reading = Reading(results)
    records = [record for _, record in reading]
    reading.warn()
    if not records:
        raise ValueError(reading.nothing())
    return sorted(records, key=lambda record: record["run_id"])


def error(folder: Path) -> str:
    """Return one line of error.txt: the first of a traceback's message, or of any other text."""
    path = folder / "error.txt"
    lines: list[str] = []
    if path.is_file():
        with path.open("rb") as file:  # only its end, where a traceback has its message
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2**20))
            lines = file.read().decode(errors="replace").strip().splitlines()
    frames = [i for i, line in enumerate(lines) if line.startswith("  File ")]
    message = lines[frames[-1] :] if frames and "Traceback (most recent call last):" in lines else lines
    return visible(next((line.strip() for line in message if line.strip() and line[0] != " "), "unknown"))


def check_checkpoint(folder: Path, source: Mapping[str, str] | None = None) -> None:
    """Raise ValueError for a last.ckpt that was cut off or that other source wrote, before training on it.

    source: the hashes of the cell's parts now (`zoo.results.source`); None: do not compare.
    """
    path = folder / "last.ckpt"
    if not path.exists():
        return
    if not (path.is_file() and zipfile.is_zipfile(path)):
        raise ValueError(f"{path} is not a complete checkpoint: delete it, and its cell starts anew.")
    if other := changed(last_attempt(folder), source or {}):
        raise ValueError(
            f"{path} was written by other source of {', '.join(other)}: delete it, and its cell starts anew."
        )


def check_place(folder: Path) -> None:
    """Raise ValueError for a file where the record's folder belongs, or a folder where a file belongs."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder, and a record belongs there: move it away.")
    for name in FILES:
        if (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a folder, and a file belongs there: move it away.")


def check_writable(results: Path) -> None:
    """Make the results folder.  ValueError says in one line why records cannot be written there."""
    probe = results / f".probe-{os.getpid()}"
    try:
        results.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(
            f"results (={results}) must be a folder that can be written to ({error.strerror}): "
            "give another with results=FOLDER."
        ) from None
    for name in FOLDERS:
        if os.path.lexists(results / name) and not (results / name).is_dir():
            raise ValueError(f"{results / name} is a file, and a folder belongs there: move it away.")


def begin(folder: Path, config: str, environment: dict[str, Any]) -> None:
    """Write what is known before training, and delete the remains of a failed or killed attempt.

    ValueError: see `check_checkpoint`.
    """
    check_checkpoint(folder, environment.get("source"))
    drop_halves(folder)
    (folder / "error.txt").unlink(missing_ok=True)
    goes_on = (folder / "last.ckpt").exists()
    began = {"began": (_began(folder) if goes_on else None) or _now()}
    write(folder / "config.yaml", config)
    write(folder / "env.json", json.dumps(began | environment, indent=1) + "\n")


def _began(folder: Path) -> str | None:
    """Return when the cell was begun, from its env.json; None where that is not noted."""
    began = last_attempt(folder).get("began")
    return began if is_time(began) else None


def last_attempt(folder: Path) -> dict[str, Any]:
    """Read what the last attempt noted in env.json; {} where that is missing or damaged."""
    try:
        note = json.loads(text(folder, "env.json"))
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _now() -> str:
    return datetime.now(UTC).strftime(TIME)


def drop_halves(folder: Path) -> None:
    """Delete what a killed process was writing.  Only for the claim's holder, or after killing the holder."""
    for path in folder.glob(".*.part"):
        if not path.name.startswith(".claim."):
            path.unlink(missing_ok=True)


def finish(folder: Path, record: dict[str, Any]) -> None:
    """Write result.json, last of all, and then delete the checkpoint, which a done cell does not need.

    An error.txt that another driver has written meanwhile is deleted too: the cell has not failed.
    """
    began = _began(folder)
    times = ({"began": began} if began else {}) | {"ended": _now()}
    write(folder / "result.json", json.dumps({"schema": SCHEMA} | times | record, indent=1) + "\n")
    for name in ("error.txt", "last.ckpt"):
        (folder / name).unlink(missing_ok=True)


def fail(folder: Path, text: str) -> None:
    """Write error.txt, in a new folder if need be.  text: a traceback, or why the process died."""
    with room(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write(folder / "error.txt", text)
