"""A user's cache folders (for compiled libraries and verdicts), in which nobody else may write."""

import os
import stat
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Unsafe(OSError):
    """The error of a file or folder that would be trusted, but that other users can write."""


def cache_folder(name: str) -> Path:
    """Return $XDG_CACHE_HOME/zoo/NAME (~/.cache/zoo/NAME), existing or not; OSError: no home is known."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise OSError("no home folder is known: set HOME or XDG_CACHE_HOME") from None
    return Path(home) / "zoo" / name


def make_private(folder: Path) -> None:
    """Make a cache folder and the one above it; raise Unsafe where another user may write in one of them."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        _check_owner(each, each.stat())


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise Unsafe(f"{path} belongs to another user")
    if status.st_mode & OTHERS_WRITE:
        raise Unsafe(f"{path} can be written by other users: chmod go-w {path}")


def read_file(path: Path, most: int, private: bool = False) -> bytes:
    """Return the bytes of a regular file.  OSError: more than `most`, or, if private, others may write it."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file")
        if private:
            _check_owner(path, status)
        if status.st_size > most:
            raise OSError(f"it has {status.st_size} bytes, and at most {most} are read")
        return file.read(most)
