"""What lies in a results folder, good or bad: records, what failed, and what cannot be read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.records import sound
from zoo import results

_ROOT = re.compile(r'File "[^"]*?([^/"]+/site-packages/|(?=(?:zoo|analysis|hydra_plugins)/))')


@dataclass(frozen=True)
class Problem:
    """A record that is not drawn, and why, in one line."""

    where: str
    why: str


@dataclass(frozen=True)
class Failure:
    """A cell that has an error.txt instead of a result.  first: its message, in one line."""

    run_id: str
    first: str
    traceback: str


@dataclass
class Sources:
    """name: of the folder or archive.  folders: run_id -> where the files of a record lie."""

    name: str
    records: list[dict[str, Any]] = field(default_factory=list)
    folders: dict[str, results.Home] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def read(home: Path) -> Sources:
    """Every record once.  ValueError: no such folder, or neither a record nor a failure that can be read."""
    found = Sources(home.resolve().name)
    seen: dict[tuple[Any, ...], str] = {}
    for folder in results.cells(home):
        try:
            if results.is_done(folder):
                _add(found, folder, seen)
            elif isinstance(folder, Path) and (folder / "error.txt").is_file():
                found.failures.append(_failure(folder))
        except (ValueError, OSError) as error:
            why = _one_line(error).replace(f"{home}/{folder.name}/", "")
            found.problems.append(Problem(folder.name, why))
    if not found.records:
        raise ValueError(_nothing(home, found))
    return found


def text(folder: results.Home, name: str) -> str:
    """A file of a cell; "" where there is none."""
    path = folder / name
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _add(found: Sources, folder: results.Home, seen: dict[tuple[Any, ...], str]) -> None:
    record = sound(folder)
    for twice in _names(record):
        if twice in seen:
            raise ValueError(f"result.json is the same cell as {seen[twice]}: delete one of the two.")
    seen |= dict.fromkeys(_names(record), folder.name)
    found.records.append(record)
    found.folders[record["run_id"]] = folder


def _names(record: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """By which a second record of the same cell is known."""
    yield (record["run_id"],)
    yield record["point"], record["lr"], record["seed"]


def _failure(folder: Path) -> Failure:
    """The traceback without the folders of the machine it ran on."""
    traceback = _ROOT.sub(r'File "\1', text(folder, "error.txt"))
    return Failure(folder.name, results.error(folder), traceback)


def _nothing(home: Path, found: Sources) -> str:
    if found.problems:
        first = found.problems[0]
        return f"none of the {len(found.problems)} records in {home} can be read; {first.where}: {first.why}"
    if found.failures:
        first = found.failures[0]
        return (
            f"all {len(found.failures)} cells in {home} failed, {first.run_id}: {first.first} "
            "(run their command again)."
        )
    return f"results folder {home} holds no finished cell: run `python -m zoo.run` first."


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
