"""Write down the cells that a sweep wants before it starts, so that missing ones are known.

    results/.sweeps/<sweep id>.json   {"schema", "command", "git_revision", "git_clean", "since",
                                       "cells": {run id: the cell's words on zoo.run's command line}}

The id is a hash of the run ids, so the same sweep typed again, or by two people at once, is one sweep.  Both
launchers write the file; the jobs that a cluster makes of it are in zoo/launch/slurm/ledger.py.  Delete the
file if the missing cells are no longer wanted: only zoo.status needs it.
"""

import hashlib
import json
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated

from pydantic import Field, with_config
from typing_extensions import TypedDict

from zoo.common.foreign import all_visible, visible
from zoo.config.cell import Cell
from zoo.results import atomic
from zoo.results.checked import mistake
from zoo.results.environment import machine
from zoo.results.home import shown, text
from zoo.results.record import STRICT, RunId

HOME = ".sweeps"  # in the results folder
SCHEMA = 1  # raise it when a key changes its meaning
AGAIN = "move it away; the sweep's command writes it again"


@dataclass(frozen=True)
class Manifest:
    """A sweep.  cells: run id -> words.  since: when its command was last given, seconds since 1970."""

    cells: dict[str, str]
    command: str
    git_revision: str | None
    git_clean: bool | None
    since: float = field(default_factory=time.time)

    @property
    def sweep_id(self) -> str:
        return hashlib.sha256("\n".join(sorted(self.cells)).encode()).hexdigest()[:8]


def write(cells: Iterable[Cell]) -> list[str]:
    """Write down that all these cells are wanted, done ones too; return the sweep's id in each folder."""
    command, code = f"python -m zoo.run {shlex.join(sys.argv[1:])}", machine()
    homes: dict[Path, dict[str, str]] = defaultdict(dict)
    for cell in cells:
        homes[cell.folder.parent][cell.run_id] = shlex.join(cell.overrides)
    sweep_ids = []
    for home, words in homes.items():
        manifest = Manifest(words, command, code["git_revision"], code["git_clean"])
        (home / HOME).mkdir(parents=True, exist_ok=True)
        text = json.dumps({"schema": SCHEMA} | asdict(manifest), indent=1) + "\n"
        atomic.write(home / HOME / f"{manifest.sweep_id}.json", text)
        sweep_ids.append(manifest.sweep_id)
    return sweep_ids


@with_config(STRICT)
class Stored(TypedDict):
    """The file of a manifest."""

    schema: int
    command: str
    git_revision: str | None
    git_clean: bool | None
    since: Annotated[float, Field(ge=0, le=1e11)]
    cells: dict[RunId, str]


def read_all(home: Path, unread: list[str]) -> dict[str, Manifest]:
    """Return sweep id -> manifest, the oldest first.  A damaged or foreign file adds a line to `unread`."""
    sweeps = {}
    for path in sorted((home / HOME).glob("*.json")):
        try:
            sweeps[visible(path.stem)] = _read(path.parent, path.name)
        except ValueError as error:
            unread.append(str(error))
    return dict(sorted(sweeps.items(), key=lambda item: item[1].since))


def _read(folder: Path, name: str) -> Manifest:
    path = shown(folder / name)
    try:
        content = all_visible(json.loads(text(folder, name)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is no manifest of a sweep ({error}): {AGAIN}.") from None
    schema = content.pop("schema", None) if isinstance(content, dict) else None
    if type(schema) is int and schema > SCHEMA:
        raise ValueError(f"{path} has schema {schema}, this version reads {SCHEMA}: a later one reads it.")
    if schema != SCHEMA:
        raise ValueError(f"{path} has schema {schema!r:.60}, this version reads schema {SCHEMA}: {AGAIN}.")
    if wrong := mistake({"schema": schema} | content, Stored):
        raise ValueError(f"{path} is no manifest of a sweep ({wrong}): {AGAIN}.")
    return Manifest(**{field.name: content[field.name] for field in fields(Manifest)})
