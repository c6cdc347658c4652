"""Files that appear in one move, and one line where the disk has no room for them."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(Exception):
    """There is no room; the message says where.  It ends a sweep: its other cells would meet the same."""


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """A file to write that becomes `path` in one move: a reader, or a kill, meets all of it or nothing.

    It has reached the disk by then.  DiskFull: it did not fit, and takes no room.  Of several writers, the
    last wins.
    """
    with replaced_by(path) as part, room(path), part.open(mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def write(path: Path, text: str) -> None:
    """Put `text` at `path` in one move.  DiskFull: it does not fit."""
    with replacing(path) as file:
        file.write(text)


@contextmanager
def replaced_by(path: Path) -> Iterator[Path]:
    """A name beside `path`: what was written there is `path` at the end, and gone after an error."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def room(path: Path) -> Iterator[None]:
    """Whatever is raised inside because the disk is full becomes DiskFull."""
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:
        if (what := _full_disk(error)) is None:
            raise
        raise DiskFull(
            f"the disk is full: {path} could not be written ({what}); make room, and the same command goes "
            "on where this one stopped"
        ) from error


def is_full(error: BaseException) -> bool:
    """Return whether the disk was full."""
    return isinstance(error, DiskFull) or _full_disk(error) is not None


def _full_disk(error: BaseException | None) -> str | None:
    """Return the system's words for a full disk, from the error or its causes; None: it is another error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return error.strerror
        error = error.__cause__ or error.__context__
    return None
