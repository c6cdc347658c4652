"""Read records from a folder or archive: yield the sound ones, and note a line on each of the others."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from zoo.common.checks import reason
from zoo.common.foreign import visible
from zoo.config.cell import Cell
from zoo.results.checked import ASIDE, parse
from zoo.results.home import Home, cells, empty, others_in, shown, text

INCOMPLETE = 3  # exit code: done, but without records that cannot be read
MOST_LINES = 20  # on stderr, for records that cannot be read


def left_out(wrong: Sequence[str], notes: Sequence[str] = ()) -> int:
    """Report on stderr what was not read, or read under another name; return the exit code."""
    lines = [f"left out: {line}" for line in wrong[:MOST_LINES]]
    lines += [f"note: {line}" for line in notes[:MOST_LINES]]
    if len(wrong) > MOST_LINES:
        lines.append(f"left out: {len(wrong) - MOST_LINES} more; python -m zoo.status --all names them")
    if lines:
        print("\n".join(lines), file=sys.stderr)
    return INCOMPLETE if wrong else 0


class Reading:
    """The sound records of a folder or archive, one at a time, each with the folder of its files.

    After all are read, `wrong` has a line on each record that is left out, and `notes` one on each folder
    whose name is not its record's (it was copied or renamed).  A copy of a cell is not counted again.
    """

    def __init__(self, results: str | Path) -> None:
        self.results = Path(results)
        self.wrong: list[str] = []
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[Home, dict[str, Any]]]:
        """Yield each folder and its record.  ValueError: there is neither a folder nor an archive."""
        by_id: dict[str, Home] = {}
        misnamed: list[Home] = []
        for folder in cells(self.results):
            if (record := self._sound(folder)) and record["run_id"] != folder.name:
                misnamed.append(folder)
            elif record:
                by_id[folder.name] = folder
                yield folder, record
        for folder in misnamed:
            if (record := self._sound(folder)) and self._is_new(folder, record, by_id):
                yield folder, record
        if by_id:
            inner = others_in(self.results)
            self.notes += [f"{name} holds results of its own, which are not read here." for name in inner]

    def _sound(self, folder: Home) -> dict[str, Any] | None:
        try:
            return parsed(folder) if is_done(folder) else None
        except (ValueError, OSError) as error:
            self.wrong.append(visible(str(error)))
            return None

    def _is_new(self, folder: Home, record: dict[str, Any], by_id: dict[str, Home]) -> bool:
        name, run_id = shown(folder), record["run_id"]
        if run_id not in by_id:
            by_id[run_id] = folder
            self.notes.append(f"{name} holds the record of {run_id} and counts as it: rename it to {run_id}.")
            return True
        what = "is a copy of" if parsed(by_id[run_id]) == record else "has other numbers under the name of"
        self.notes.append(f"{name} {what} {shown(by_id[run_id])}, which counts; {name} does not.")
        return False

    def warn(self, more: Sequence[str] = ()) -> None:
        """Warn of all lines, at the line that called the reading function."""
        for line in (*self.wrong, *self.notes, *more):
            warnings.warn(line, stacklevel=3)

    def nothing(self) -> str:
        """Return one line that says why there is no record."""
        if self.wrong:
            first, count = self.wrong[0], len(self.wrong)
            return f"No record in {shown(self.results)} can be read; the first of {count}: {first}"
        return empty(self.results)


def read(folder: Home) -> dict[str, Any]:
    """Return the record of a finished cell.  ValueError, one line: damaged, foreign or another cell's."""
    record = parsed(folder)
    if record["run_id"] != folder.name:
        raise ValueError(
            f"{shown(folder / 'result.json')} is the record of {record['run_id']}: "
            f"give its folder that name, or {ASIDE}."
        )
    return record


def parsed(folder: Home) -> dict[str, Any]:
    """Return the record in a folder, whatever the folder's name."""
    return parse(text(folder, "result.json"), shown(folder / "result.json"))


def configured(folder: Home, record: dict[str, Any]) -> Cell:
    """Read the cell of config.yaml, whose hash must be the run id of the record.  ValueError, one line."""
    path, content = shown(folder / "config.yaml"), text(folder, "config.yaml")
    try:
        if "*" in content and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(content)):
            raise ValueError("it holds an alias, which no config of zoo does")
        config = yaml.safe_load(content)
        cell = Cell(config, {"mixer": record["mixer"], "task": record.get("task", "")})
        run_id = cell.run_id
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = getattr(error, "problem", None) or reason(error)  # the first line of a YAMLError says nothing
        raise ValueError(f"{path} is no config of a cell ({visible(why)}).") from None
    if run_id != record["run_id"]:
        raise ValueError(f"{path} is the config of {visible(run_id)}, its record of {record['run_id']}.")
    return cell


def is_done(folder: Home) -> bool:
    """Return whether the cell's result.json exists, which is written last."""
    return (folder / "result.json").is_file()
