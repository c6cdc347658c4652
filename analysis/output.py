"""Choose the folder of the files that a command writes, and write each file in one move."""

import os
from pathlib import Path

from zoo.results.atomic import replaced_by


def folder(results: Path, name: str, out: Path | None) -> Path:
    """Return out, or else the folder `name` beside the records.  ValueError: the latter is a link."""
    beside = results if results.is_dir() else results.with_suffix("")
    if beside != results and any(beside.glob("*/result.json")):  # other records, with pictures of their own
        beside = results.with_name(results.name.replace(".", "_"))
    if out and out.suffix in (".png", ".pdf", ".csv"):
        raise ValueError(f"--out (={out}) names a folder for pictures and tables, not a file.")
    home = out or beside / name
    if out is None and home.is_symlink():
        raise ValueError(f"{home} is a link to {os.readlink(home)}: remove it, or name a folder with --out.")
    return home


def write(path: Path, content: bytes) -> Path:
    """Write content to path in one move: a reader sees the old file or the new one.

    A link at path is replaced, and its target is not changed.  ValueError: path cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_by(path) as part:
            part.write_bytes(content)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}): name another with --out.") from None
    return path
