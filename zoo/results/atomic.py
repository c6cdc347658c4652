"""Write files that appear in one move, and raise DiskFull, one line, where the disk has no room."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # EFBIG: ulimit -f


class DiskFull(Exception):
    """The disk has no room; the message says where.  It ends a sweep, since other cells would fail too."""


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Yield a file to write that becomes `path` in one move: a reader or a kill sees all of it or nothing.

    Its contents are on the disk before the move.  DiskFull: it did not fit, and is removed.  Of several
    writers, the last wins.
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
    """Yield a name beside `path`; what is written there becomes `path`, or is removed after an error."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def room(path: Path) -> Iterator[None]:
    """Turn any error inside the context that a full disk caused into DiskFull."""
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
    """Return whether a full disk caused the error."""
    return isinstance(error, DiskFull) or _full_disk(error) is not None


def _full_disk(error: BaseException | None) -> str | None:
    """Return the system's words for a full disk, from the error or its causes; None: another error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return error.strerror
        error = error.__cause__ or error.__context__
    return None
