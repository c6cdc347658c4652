"""The user's own text."""

from collections.abc import Sequence
from pathlib import Path

from zoo.tasks.corpora.base import Corpus


def files(paths: Sequence[str]) -> Corpus:
    """A document a UTF-8 file.  ValueError, one line: none, missing, empty, not UTF-8."""
    if not paths:
        raise ValueError("files is empty: name one UTF-8 file or more, files=[book.txt].")
    return Corpus("files", [_read(Path(path)) for path in paths], {})


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"files names {path}, which is no file.")
    content = path.read_bytes()
    if not content:
        raise ValueError(f"files names {path}, which is empty.")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"files names {path}, which is not UTF-8 (byte {error.start}).") from None
    return content
