"""The files that a command writes: in which folder, and each in one move."""

import os
from pathlib import Path

from zoo.results.atomic import replaced_by


def folder(results: Path, name: str, out: Path | None) -> Path:
    """Return out, or the folder of this name beside the records.  ValueError: the latter is a link."""
    home = out or results.with_suffix("") / name
    if out is None and home.is_symlink():
        raise ValueError(
            f"{home} is a link to {os.readlink(home)}: remove it, or name the folder with --out."
        )
    return home


def write(path: Path, content: bytes) -> Path:
    """Put content at path in one move: whoever looks meanwhile sees the old file or the new one.

    A link that stands there is replaced; what it leads to stays as it is.  ValueError: nothing can be
    written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_by(path) as part:
            part.write_bytes(content)
    except OSError as error:
        raise ValueError(
            f"{path} cannot be written ({error.strerror}): name another place with --out."
        ) from None
    return path
