"""A damage to a results folder or an archive: by name, to the first cell of four that are sound."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.results.checked import parse

SOURCE = Path(__file__).resolve().parents[2] / "docs" / "results" / "mini_zoology_fig2.zip"
SECRET = "of no concern to a reader of records"  # what a file beside the home holds
ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e\x00"  # what a terminal obeys


@dataclass(frozen=True)
class Damage:
    """do: to a results folder, or to an archive where `packed`.

    refused: the record of that cell can no longer be used, so every command has to say so; where it is not,
    it may be used or not.
    """

    name: str
    do: Callable[[Path], object]
    refused: bool = False
    packed: bool = False


def make(home: Path) -> Path:
    """Four finished cells of a real sweep, two mixers of two widths each; whole, in a new folder.

    The victim's record is of this schema, those of the others are of the one before.
    """
    with zipfile.ZipFile(SOURCE) as file:
        for name in file.namelist():
            if name.endswith("/result.json") and _chosen(json.loads(file.read(name))):
                folder = name.partition("/")[0]
                file.extractall(home, [each for each in file.namelist() if each.startswith(f"{folder}/")])
    path = victim(home) / "result.json"
    path.write_text(json.dumps(parse(path.read_text(), path)))
    return home


def _chosen(record: dict[str, Any]) -> bool:
    of = record["mixer"] in ("attention", "based") and record["d_model"] in (32, 64) and record["seed"] == 2
    return of and record["slices"][0]["slice"] == {"seq_len": 16, "num_kv_pairs": 2}


def victim(home: Path) -> Path:
    return sorted(path for path in home.iterdir() if path.is_dir() and path.name[0] != ".")[0]


def rewrite(home: Path, change: Callable[[Any], object]) -> None:
    path = victim(home) / "result.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
