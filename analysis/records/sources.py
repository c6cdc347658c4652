"""Read results folders and archives: records, what failed, and what cannot be read."""

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.common.checks import one_line
from zoo.results import store
from zoo.results.home import empty, places, text

from .older import filled

_ROOT = re.compile(r'File "[^"]*?([^/"]+/site-packages/|(?=(?:zoo|analysis|hydra_plugins)/))')


@dataclass(frozen=True)
class Problem:
    """A record that is not drawn, or not all of it, and the reason in one line."""

    where: str
    why: str


@dataclass(frozen=True)
class Failure:
    """A cell that has an error.txt instead of a result.  first: the error's message in one line."""

    run_id: str
    first: str
    traceback: str


@dataclass
class Sources:
    """The content of some results folders and archives.

    homes_named: names of the homes that were given.  names: of the folders and archives in them.
    folders: run_id -> the folder with the record's files.  origin: run_id -> place in names.
    twice: how many cells are there twice with the same scores, and count once.
    again: point -> the point of an earlier folder or run that it repeats with other scores.
    """

    homes_named: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    folders: dict[str, store.Home] = field(default_factory=dict)
    origin: dict[str, int] = field(default_factory=dict)
    twice: int = 0
    again: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def text(self, run_id: str, name: str) -> str:
        """Return the text of a record's file; "" if there is none, or if it cannot be read (a problem)."""
        folder = self.folders[run_id]
        try:
            return text(folder, name, linked=False) if (folder / name).is_file() else ""
        except (ValueError, OSError) as error:
            self.problem(run_id, str(error))
            return ""

    def problem(self, run_id: str, why: str) -> None:
        """Note a problem of a record, once even if it is met again."""
        problem = Problem(run_id, why.replace(f"{self.folders[run_id]}/", ""))
        self.problems += [] if problem in self.problems else [problem]


Key = tuple[Any, ...]  # a name of a cell, see `_names`
Cells = list[tuple[store.Home, dict[str, Any]]]
Earlier = dict[Key, list[dict[str, Any]]]


def read(homes: Sequence[Path]) -> Sources:
    """Read every record once.  ValueError: a home does not exist, or no record can be read."""
    sources, earlier = Sources([_absolute(home).name for home in homes]), Earlier()
    inner = [(place, outer) for outer in homes for place in places(outer)]
    for home, outer in inner:
        sources.names.append(_absolute(home).name)
        try:
            _read(home, sources, earlier)
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            if home == outer:  # this home was named itself
                raise ValueError(one_line(error)) from None
            sources.problems.append(Problem(home.name, one_line(error).replace(f"{home.parent}/", "")))
    if not sources.records:
        raise ValueError(_nothing(" and ".join(map(str, homes)), sources))
    return sources


def _read(home: Path, sources: Sources, earlier: Earlier) -> None:
    """Add the records and failures of one folder or archive to `sources`."""
    # the name of the folder or archive, with its parent's name if another one has the same name
    path = _absolute(home)
    name = path.name.removesuffix(".zip")
    name = name if sources.names.count(path.name) < 2 else f"{path.parent.name}/{name}"
    for number, cells in enumerate(_cells(home, sources), start=1):
        _add(cells, name if number == 1 else f"{name}, run {number}", sources, earlier)


def _add(cells: Cells, name: str, sources: Sources, earlier: Earlier) -> None:
    """Add cells to `sources`; a point that is there with other scores is drawn again, under this name."""
    again = {record["point"] for _, record in cells if _known(record, earlier) is False}
    for folder, record in cells:
        if record["point"] not in again and _known(record, earlier):
            sources.twice += 1
            continue
        for key in _names(record):
            earlier.setdefault(key, []).append(record)
        drawn = _renamed(record, name) if record["point"] in again else record
        if drawn is not record:
            sources.again[drawn["point"]] = record["point"]
        sources.records.append(drawn)
        sources.folders[drawn["run_id"]] = folder
        sources.origin[drawn["run_id"]] = len(sources.names) - 1


def _cells(home: Path, sources: Sources) -> list[Cells]:
    """Return the finished cells of one folder: first each cell once, then second runs of cells, and so on.

    Failed and unreadable cells go into `sources`."""
    runs: list[Cells] = []
    known: list[dict[Key, dict[str, Any]]] = []
    for folder in store.cells(home):
        try:
            if store.is_done(folder):
                record = filled(store.parsed(folder))
                number = _first_free(record, known)
                if number is None:
                    sources.twice += 1
                    continue
                if number == len(runs):
                    runs.append([])
                    known.append({})
                known[number] |= dict.fromkeys(_names(record), record)
                runs[number].append((folder, record))
            elif isinstance(folder, Path) and (folder / "error.txt").is_file():
                # the traceback without the folders of the machine it ran on
                traceback = _ROOT.sub(r'File "\1', text(folder, "error.txt", linked=False))
                sources.failures.append(Failure(folder.name, store.error(folder), traceback))
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            why = one_line(error).replace(f"{home}/{folder.name}/", "")
            sources.problems.append(Problem(folder.name, why))
    return runs


def _first_free(record: dict[str, Any], runs: list[dict[Key, dict[str, Any]]]) -> int | None:
    """Return which run of its cell a record is, from 0; None: a run with the same scores is there."""
    for number, run in enumerate(runs):
        same = [run[key] for key in _names(record) if key in run]
        if not same:
            return number
        if any(_scores(other) == _scores(record) for other in same):
            return None
    return len(runs)


def _known(record: dict[str, Any], earlier: Earlier) -> bool | None:
    """Return whether an earlier folder has this cell with these scores; None: none has this cell."""
    known = [other for key in _names(record) for other in earlier.get(key, [])]
    return any(_scores(other) == _scores(record) for other in known) if known else None


def _names(record: dict[str, Any]) -> Iterator[Key]:
    """Yield the names by which to recognise a second record of the same cell."""
    yield (record["run_id"],)
    yield record["point"], record["lr"], record["seed"]


def _scores(record: dict[str, Any]) -> Any:
    return record["status"], record["slices"]


def _absolute(home: Path) -> Path:
    """Return the absolute path without following links, because a link may lead to itself."""
    return Path(os.path.abspath(home))


def _renamed(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the record under its folder's name, so that it has its own cell, point and legend entry."""
    return record | {
        "run_id": f"{record['run_id']}@{name}",
        "point": f"{record['point']}@{name}",
        "label": f"{record['label']} ({name})",
    }


def _nothing(home: str, sources: Sources) -> str:
    if sources.problems:
        first = sources.problems[0]
        return f"none of {len(sources.problems)} records in {home} can be read; {first.where}: {first.why}"
    if sources.failures:
        first = sources.failures[0]
        return (
            f"all {len(sources.failures)} cells in {home} failed, {first.run_id}: {first.first} "
            "(run their command again)."
        )
    return empty(Path(home))
